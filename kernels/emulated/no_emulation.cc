// In place of all other sources of this folder where there is no Boost.Context.
#include "base/error.h"
#include "kernels/emulated/emulated.h"

namespace assay {

bool has_emulated_kernels() {
  return false;
}

std::unique_ptr<Kernels> make_emulated_kernels(uint64_t /*seed*/, Math /*math*/,
                                               bool /*counts_instructions*/) {
  throw Error("this build has no emulated kernels", "--backend",
              "build with Boost.Context (scripts/setup.sh installs it), or use --backend cpu");
}

EmulatedCounts emulated_counts(Kernels& /*kernels*/) {
  throw Error("this build has no emulated kernels", "emulated_counts");
}

std::map<std::string, KernelCounts> take_instruction_counts(Kernels& /*kernels*/) {
  throw Error("this build has no emulated kernels", "take_instruction_counts");
}

}  // namespace assay
