#include "assay/record/backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/emulated/emulated.h"

namespace assay {

Math math_of(const std::string& name) {
  if (name == "exact") return Math::kExact;
  if (name == "fast") return Math::kFast;
  if (name == "library") return Math::kLibrary;
  throw Error(fmt::format("'{}' is not known", name), "--math", "give exact, fast or library");
}

std::string chosen_backend(const std::string& wanted) {
  if (wanted != "auto") return wanted;
  return cuda_is_usable() ? "cuda" : "cpu";
}

std::unique_ptr<Kernels> make_kernels(std::string_view backend, Math math, ThreadPool& pool) {
  if (backend == "cpu") return make_cpu_kernels(pool, best_instruction_set(), math);
  if (backend == "cuda") return make_cuda_kernels(math);
  if (backend == "emulated") return make_emulated_kernels(0, math);
  throw Error(fmt::format("'{}' is not known", backend), "--backend",
              "give auto, cpu, cuda or emulated");
}

}  // namespace assay
