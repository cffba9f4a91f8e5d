# assay_embed(TARGET VARIABLE file...): adds to TARGET a source that holds the files, one after the
# other and byte for byte, as `extern const std::string_view assay::VARIABLE`. A file that changes is
# embedded again.
function(assay_embed TARGET VARIABLE)
  set(files "")
  foreach(file ${ARGN})
    list(APPEND files ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${VARIABLE}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DVARIABLE=${VARIABLE} -DSOURCE=${source} -P ${script}
    DEPENDS ${files} ${script} COMMENT "Embedding ${ARGN}" VERBATIM)
  target_sources(${TARGET} PRIVATE ${source})
endfunction()
