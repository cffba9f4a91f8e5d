# assay_ptxas_report(OUT source.cu ...): what ptxas says of the registers, spills and shared memory
# of each kernel on sm_90, in ${CMAKE_CURRENT_BINARY_DIR}/<source>.ptxas; OUT is their list. nvcc
# compiles each source once more for it, to nothing else.
function(assay_ptxas_report OUT)
  set(reports)
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(report ${CMAKE_CURRENT_BINARY_DIR}/${name}.ptxas)
    add_custom_command(OUTPUT ${report}
      COMMAND ${CMAKE_CUDA_COMPILER_LAUNCHER} ${CMAKE_CUDA_COMPILER} -cubin -arch=sm_90 -O3
        -std=c++20 -fmad=false --resource-usage -I${PROJECT_SOURCE_DIR}
        -MD -MF ${report}.d -MT ${report} -o ${report}.cubin ${source} 2> ${report}.part
      COMMAND ${CMAKE_COMMAND} -E rename ${report}.part ${report}
      DEPENDS ${source}
      DEPFILE ${report}.d
      COMMENT "Asking ptxas about ${name}.cu"
      VERBATIM)
    list(APPEND reports ${report})
  endforeach()
  set(${OUT} ${reports} PARENT_SCOPE)
endfunction()
