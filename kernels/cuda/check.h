#pragma once

#include <cuda_runtime.h>

namespace assay::cuda {

// Throws Error that names the call, CUDA's message and the place in the source, unless it
// succeeded.
void check(cudaError_t result, const char* call, const char* file, int line);

}  // namespace assay::cuda

// Every call of the CUDA runtime goes through here.
#define ASSAY_CUDA_CHECK(call) ::assay::cuda::check((call), #call, __FILE__, __LINE__)
