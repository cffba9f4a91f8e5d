#pragma once

#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace assay {

// Whether CUDA kernels can run here.
struct CudaState {
  enum class Kind {
    kAbsent,  // this build has none, or there is no driver or no device
    kFails,   // a device is there, but it or its driver is too old, or does not work
    kUsable,
  };
  Kind kind = Kind::kAbsent;
  std::string
      why_not;  // the sentence of the Error that make_cuda_kernels() throws; empty if usable
};
CudaState cuda_state();

// Whether this build has CUDA kernels, and a device is there that they run on.
inline bool cuda_is_usable() {
  return cuda_state().kind == CudaState::Kind::kUsable;
}

// What Math::kLibrary lacks: the sentence of the Error that make_cuda_kernels() throws for it where
// a device is usable; empty if it lacks nothing.
std::string missing_cublas();

// Kernels on the first CUDA device; their results have the bits of the CPU's, but
// for those of kLibrary. Throws Error, with
// what was found and what to do, if this build has none or no device can run them.
std::unique_ptr<Kernels> make_cuda_kernels(Math math = Math::kExact);

}  // namespace assay
