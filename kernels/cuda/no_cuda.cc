// In place of all other sources of this folder where there is no nvcc.
#include "base/error.h"
#include "kernels/cuda/cuda.h"

namespace assay {
namespace {

Error no_kernels() {
  return Error("this build has no CUDA kernels", "--backend",
               "build with nvcc (cmake --preset cuda), or use --backend cpu");
}

}  // namespace

CudaState cuda_state() {
  return {CudaState::Kind::kAbsent, no_kernels().what()};
}

std::string missing_cublas() {
  return no_kernels().what();
}

std::unique_ptr<Kernels> make_cuda_kernels(Math /*math*/) {
  throw no_kernels();
}

}  // namespace assay
