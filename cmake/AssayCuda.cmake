# Whether the CUDA backend is built: ASSAY_CUDA is AUTO (if there is an nvcc), ON or OFF; the answer
# is ASSAY_HAS_CUDA. All else builds and runs without.
set(ASSAY_CUDA "AUTO" CACHE STRING "CUDA backend: AUTO, ON or OFF")
set_property(CACHE ASSAY_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ASSAY_HAS_CUDA OFF)

# Sanitizers and nvcc do not go together; kernels/emulated is there for them.
if(ASSAY_CUDA STREQUAL "OFF" OR (ASSAY_CUDA STREQUAL "AUTO" AND (ASSAY_SANITIZE OR ASSAY_BUILD_FUZZ)))
  return()
endif()

# sm_80, which devices of 8.6 and 8.9 run, too, sm_90, and what a driver compiles for newer devices. The environment's
# CUDAARCHS is CMake's own way to ask for others.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(ASSAY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ASSAY_CUDA=ON, but there is no working nvcc: install the CUDA toolkit, "
      "name its compiler with -DCMAKE_CUDA_COMPILER=, or use ASSAY_CUDA=AUTO")
  endif()
  message(STATUS "nvcc not found: no CUDA backend")
  return()
endif()

enable_language(CUDA)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked by name, so that installed targets know it
find_package(CUDAToolkit REQUIRED)
set(ASSAY_HAS_CUDA ON)

# Linked, a program that never calls cuBLAS still takes 0.1 s and 200 MB more to start.
option(ASSAY_LINK_CUBLAS "Link cuBLAS of the toolkit (CUDA::cublas); otherwise it is loaded when it is asked for" OFF)
if(ASSAY_LINK_CUBLAS AND NOT TARGET CUDA::cublas)
  message(FATAL_ERROR "ASSAY_LINK_CUBLAS=ON, but the CUDA toolkit has no cuBLAS: install it, or leave the option OFF")
endif()
