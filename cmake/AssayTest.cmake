include(GoogleTest)
# The interpreter itself: a shim, as of pyenv, takes a tenth of a second each time, and find_package() asks many times.
if(NOT Python3_EXECUTABLE)
  execute_process(COMMAND python3 -c "import sys; print(sys.executable)"
    OUTPUT_VARIABLE Python3_EXECUTABLE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# Where tests have their temporary folders (TEST_TMPDIR, in the test presets): files in /tmp may be another user's.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/test_tmp)

# 300 seconds where none are given, and more under a sanitizer, which makes a program several times slower.
function(assay_timeout SECONDS)
  set(seconds ${${SECONDS}})
  if(NOT seconds)
    set(seconds 300)
  endif()
  if(ASSAY_SANITIZE)
    math(EXPR seconds "${seconds} * 4")
  endif()
  set(${SECONDS} ${seconds} PARENT_SCOPE)
endfunction()

# What every test program has: the GPU that ctest assigned, expected skips, times in the log, temporary files of its own.
add_library(assay_test_main OBJECT
  ${PROJECT_SOURCE_DIR}/tests/support/assigned_gpu.cc
  ${PROJECT_SOURCE_DIR}/tests/support/expected_skips.cc
  ${PROJECT_SOURCE_DIR}/tests/support/log_times.cc
  ${PROJECT_SOURCE_DIR}/tests/support/own_folder.cc
  ${PROJECT_SOURCE_DIR}/tests/support/paths.cc
  ${PROJECT_SOURCE_DIR}/tests/support/shared_templates.cc)
target_link_libraries(assay_test_main PUBLIC assay_flags GTest::gmock GTest::gtest_main)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/paths.cc TARGET_DIRECTORY assay_test_main
  PROPERTIES COMPILE_DEFINITIONS
    "ASSAY_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";ASSAY_PROGRAMS=\"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\"")
# A failure names its file from the root of the sources, so that the same test in another clone is compiled alike.
target_compile_options(assay_test_main PUBLIC -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Headers that most tests read are compiled once, with the first program. Not with ccache, which does not keep what is
# compiled with them.
function(assay_precompile_headers NAME)
  if(NOT CMAKE_UNITY_BUILD OR ASSAY_CCACHE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY ASSAY_HEADERS_PROGRAM)
  if(first)
    target_precompile_headers(${NAME} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY ASSAY_HEADERS_PROGRAM ${NAME})
    target_precompile_headers(${NAME} PRIVATE
      <gmock/gmock.h> <gtest/gtest.h>
      <algorithm> <filesystem> <fstream> <functional> <map> <memory> <random> <set> <span> <sstream> <string> <vector>)
  endif()
endfunction()

# assay_add_test(NAME unit|golden|... SOURCES a_test.cc ... LIBS lib ... [COMPUTES] [TIMEOUT seconds]
# [QUICK filter] [NOT_QUICK filter]): one
# test program build/<preset>/bin/NAME; ctest finds its cases when it runs, labelled with LABEL; those
# whose suite is named Emulated/... or Gpu/... with LABEL-emulated or LABEL-gpu, and those that match the
# GoogleTest filter QUICK, and not NOT_QUICK, which names those that take long, with LABEL-quick, which ctest -L emulated, -L gpu and -L quick find too. A case
# may take TIMEOUT seconds, 300 by default, which ctest --timeout does not change, and may skip only if
# tests/expected_skips.txt says so. Nearly all of a test's time is in what it tests, which is optimised; where its own
# sources take some, it COMPUTES.
function(assay_add_test NAME LABEL)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "COMPUTES" "TIMEOUT;QUICK;NOT_QUICK" "SOURCES;LIBS")
  assay_timeout(ARG_TIMEOUT)
  add_executable(${NAME} ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY ASSAY_TEST_PROGRAMS ${NAME})
  target_link_libraries(${NAME} PRIVATE ${ARG_LIBS} assay_test_main)
  if(ARG_COMPUTES)
    target_compile_options(${NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  else()
    target_compile_options(${NAME} PRIVATE $<$<CONFIG:Release>:-O0>)
    assay_precompile_headers(${NAME})
  endif()
  set(others "-Emulated/*:Gpu/*")
  if(ARG_QUICK)
    if(ARG_QUICK STREQUAL "*")
      set(others "${ARG_NOT_QUICK}")
    else()
      string(APPEND others ":${ARG_QUICK}")
    endif()
    set_property(GLOBAL APPEND PROPERTY ASSAY_QUICK_PROGRAMS ${NAME})
    gtest_discover_tests(${NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_FILTER "${ARG_QUICK}-${ARG_NOT_QUICK}" TEST_LIST ${NAME}_QUICK
      PROPERTIES LABELS ${LABEL}-quick TIMEOUT ${ARG_TIMEOUT})
  endif()
  if(others)
    gtest_discover_tests(${NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_FILTER "${others}" PROPERTIES LABELS ${LABEL} TIMEOUT ${ARG_TIMEOUT})
  endif()
  gtest_discover_tests(${NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_FILTER "Emulated/*" TEST_LIST ${NAME}_EMULATED
    PROPERTIES LABELS ${LABEL}-emulated TIMEOUT ${ARG_TIMEOUT})
  gtest_discover_tests(${NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_FILTER "Gpu/*" TEST_LIST ${NAME}_GPU
    PROPERTIES LABELS ${LABEL}-gpu RESOURCE_GROUPS gpus:1 TIMEOUT ${ARG_TIMEOUT})
endfunction()

# assay_add_script_test(NAME COMMAND script argument... LABELS l ... [VENV] [TIMEOUT seconds]
# [ENVIRONMENT name=value ...]): a test that is a Python or shell script and skips, with exit code
# 77, what needs something that is not here; it may only if tests/expected_skips.txt names it. VENV:
# it needs packages of PyPI, and runs with the Python of .cache/venv where there is one.
function(assay_add_script_test NAME)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "VENV" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  assay_timeout(ARG_TIMEOUT)
  set(venv "")
  if(ARG_VENV)
    set(venv --venv)
  endif()
  set_property(GLOBAL APPEND PROPERTY ASSAY_SCRIPT_TESTS ${NAME})
  add_test(NAME ${NAME}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/support/run_listed.py
      ${NAME} ${venv} ${ARG_COMMAND}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  # They take seconds: begun first, so that no processor waits for the last of them. ctest knows what each test takes
  # only where it has run before.
  set_tests_properties(${NAME} PROPERTIES COST 10 LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()
