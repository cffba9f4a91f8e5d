#include <cuda_runtime.h>

#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ops.h"

namespace assay {
namespace {

// Whether there is nothing here that could fail: no driver, or one that knows no device.
bool no_cuda_device() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return true;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) cudaGetLastError();  // cleared, or the next call would report it
  return result == cudaErrorNoDevice || (result == cudaSuccess && count == 0);
}

}  // namespace

CudaState cuda_state() {
  const bool nothing = no_cuda_device();
  try {
    const cuda::Device device;
    return {CudaState::Kind::kUsable, ""};
  } catch (const Error& error) {
    return {nothing ? CudaState::Kind::kAbsent : CudaState::Kind::kFails, error.what()};
  }
}

std::unique_ptr<Kernels> make_cuda_kernels(Math math) {
  return cuda::make_kernels("cuda", std::make_unique<cuda::Device>(), math);
}

}  // namespace assay
