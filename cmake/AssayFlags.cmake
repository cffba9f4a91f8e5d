# One INTERFACE target carries the flags of every target of our own.
add_library(assay_flags INTERFACE)
target_compile_features(assay_flags INTERFACE cxx_std_20)
target_include_directories(assay_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/assay>)
# -ffp-contract=off: a product and a sum are fused only where the source says fma, so that a
# result does not depend on the optimiser; nvcc's word for it is -fmad=false. Fast-math is never
# used: NaN must stay NaN. CMake 3.25 does not know that nvcc has C++20.
# g++ collects garbage first at 512 MB, not at 128: an eighth less time, and a third more memory (0.4 to 1.1 GB).
# clang counts changes of sign among -Wconversion, g++ does not: one set of warnings for both.
target_compile_options(assay_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-ffp-contract=off>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;-Xcompiler=-Wall,-Wextra,-Wshadow>>)
if(ASSAY_WERROR)
  target_compile_options(assay_flags INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Werror>>
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>>)
endif()
if(ASSAY_BUILD_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
if(ASSAY_SANITIZE)
  add_compile_options(-fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ASSAY_SANITIZE})
  # g++ takes the sanitizers' own branches for ways past an initialisation, in std::regex for one.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
# Coverage is counted in engine/ and assay/ only: the kernels stay as fast as they are, and so do the tests.
set(ASSAY_COUNTED)
if(ASSAY_COVERAGE)
  set(ASSAY_COUNTED --coverage -O1 -fprofile-update=atomic)
  target_link_options(assay_flags INTERFACE --coverage)
endif()
