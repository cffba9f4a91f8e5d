// In place of all other sources of this folder where there is no nvcc.
#include "base/error.h"
#include "kernels/cuda/cuda.h"

namespace assay {

bool cuda_is_usable() {
  return false;
}

std::unique_ptr<Kernels> make_cuda_kernels(Math /*math*/) {
  throw Error("this build has no CUDA kernels", "--backend",
              "build with nvcc (cmake --preset cuda), or use --backend cpu");
}

}  // namespace assay
