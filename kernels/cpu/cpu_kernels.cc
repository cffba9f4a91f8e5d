#include "kernels/kernels.h"

namespace assay {

InstructionSet best_instruction_set() {
  return InstructionSet::kPortable;
}

std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& /*pool*/, InstructionSet /*set*/) {
  return make_reference_kernels();
}

}  // namespace assay
