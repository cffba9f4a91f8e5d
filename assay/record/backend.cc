#include "assay/record/backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/emulated/emulated.h"

namespace assay {

void check_math(const std::string& math, std::string_view backend) {
  if (math != "exact") {
    throw Error(fmt::format("the {} backend has no {} math", backend, math), "--math",
                "use --math exact");
  }
}

std::string chosen_backend(const std::string& wanted) {
  if (wanted != "auto") return wanted;
  return cuda_is_usable() ? "cuda" : "cpu";
}

std::unique_ptr<Kernels> make_kernels(std::string_view backend, ThreadPool& pool) {
  if (backend == "cpu") return make_cpu_kernels(pool);
  if (backend == "cuda") return make_cuda_kernels();
  if (backend == "emulated") return make_emulated_kernels();
  throw Error(fmt::format("there is no {} backend", backend), "--backend",
              "use auto, cpu, cuda or emulated");
}

}  // namespace assay
