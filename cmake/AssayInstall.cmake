# find_package(Assay) gives Assay::assay (all of the harness), Assay::assay_engine and
# Assay::assay_kernels. Headers go under include/assay, to be included as in this tree:
# #include "engine/session.h". assay_tap.h, for engines that link nothing of ours, goes under include.
include(CMakePackageConfigHelpers)

set(assay_targets
  assay
  assay_base assay_model
  assay_causes
  assay_compare
  assay_conform
  assay_convert
  assay_dump
  assay_engine
  assay_flags
  assay_fleet
  assay_golden
  assay_kernels
  assay_log
  assay_mistakes
  assay_mutate
  assay_perf
  assay_record
  assay_report
  assay_synth
  assay_weights)
install(TARGETS ${assay_targets} EXPORT AssayTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS assay_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT AssayTargets NAMESPACE Assay:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Assay)
foreach(folder base model kernels engine assay)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/assay
    FILES_MATCHING PATTERN "*.h")
endforeach()
# What assay conform reads: the suite, and the list of engines with their adapters.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/conform ${PROJECT_SOURCE_DIR}/engines
  DESTINATION ${CMAKE_INSTALL_DATADIR}/assay USE_SOURCE_PERMISSIONS)
install(FILES ${PROJECT_SOURCE_DIR}/tap/assay_tap.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/AssayConfig.cmake.in
  ${PROJECT_BINARY_DIR}/AssayConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Assay)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/AssayConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/AssayConfig.cmake
  ${PROJECT_BINARY_DIR}/AssayConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Assay)
