# What was compiled before comes from ccache, where it is installed. A launcher that the user names
# (-DCMAKE_CXX_COMPILER_LAUNCHER=, or the environment variable of that name) is left as it is; an empty one
# means none. Paths count from the root of the sources, so that another clone finds what this one compiled.
find_program(ASSAY_CCACHE ccache)
mark_as_advanced(ASSAY_CCACHE)
if(ASSAY_CCACHE)
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${ASSAY_CCACHE})
    endif()
  endforeach()
endif()
