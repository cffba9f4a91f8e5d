#pragma once

// The backend that a source of this folder is compiled for: ASSAY_DEVICE, which is the namespace,
// and its Device. nvcc compiles for CUDA, and a compiler of the host where ASSAY_FOR_CUDA is
// defined; otherwise for kernels/emulated.
#if defined(__CUDACC__) || defined(ASSAY_FOR_CUDA)
#include "kernels/cuda/device.h"
#define ASSAY_DEVICE cuda
#else
#include "kernels/emulated/device.h"
#define ASSAY_DEVICE emulated
#endif
