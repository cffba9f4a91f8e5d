#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/cuda/cuda.h"
#include "kernels/emulated/emulated.h"
#include "kernels/kernels.h"

namespace assay::testing_support {

// What computes, as a test's parameter. Suites are named Emulated and Gpu for the latter two: by
// that ctest labels them.
enum class Backend { kCpu, kEmulated, kCuda };

inline std::string name_of(Backend backend) {
  return backend == Backend::kCpu ? "cpu" : backend == Backend::kEmulated ? "emulated" : "cuda";
}

inline void PrintTo(Backend backend, std::ostream* out) {
  *out << name_of(backend);
}

// Why this build or machine cannot run tests on `backend`; empty if it can. Throws Error, which
// fails the test that asks, where a GPU is there and does not work, and where none is there and the
// environment has ASSAY_REQUIRE_GPU=1.
inline std::string reason_to_skip(Backend backend, Math math = Math::kExact) {
  if (backend == Backend::kEmulated && !has_emulated_kernels())
    return "emulation: built without it";
  if (backend != Backend::kCuda) return {};
  const CudaState cuda = cuda_state();
  if (cuda.kind == CudaState::Kind::kUsable) {
    const std::string missing = math == Math::kLibrary ? missing_cublas() : "";
    return missing.empty() ? "" : "cublas: " + missing;
  }
  const char* required = std::getenv("ASSAY_REQUIRE_GPU");
  if (cuda.kind == CudaState::Kind::kFails ||
      (required != nullptr && std::string_view(required) == "1")) {
    throw Error("no test can run on a GPU here: " + cuda.why_not);
  }
  return "gpu: " + cuda.why_not;
}

// `seed` is for the emulated backend. `pool` must outlive the kernels.
inline std::unique_ptr<Kernels> make_kernels(Backend backend, ThreadPool& pool, uint64_t seed = 0,
                                             Math math = Math::kExact) {
  return backend == Backend::kCpu        ? make_cpu_kernels(pool, best_instruction_set(), math)
         : backend == Backend::kEmulated ? make_emulated_kernels(seed, math)
                                         : make_cuda_kernels(math);
}

}  // namespace assay::testing_support
