#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace assay {

// Whether this build has CUDA kernels, and a device is there that they run on.
bool cuda_is_usable();

// Kernels on the first CUDA device; their results have the bits of the CPU's. Throws Error, with
// what was found and what to do, if this build has none or no device can run them.
std::unique_ptr<Kernels> make_cuda_kernels(Math math = Math::kExact);

}  // namespace assay
