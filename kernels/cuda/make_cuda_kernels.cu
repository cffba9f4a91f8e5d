#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ops.h"

namespace assay {

bool cuda_is_usable() {
  try {
    const cuda::Device device;
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<Kernels> make_cuda_kernels(Math math) {
  return cuda::make_kernels("cuda", std::make_unique<cuda::Device>(), math);
}

}  // namespace assay
