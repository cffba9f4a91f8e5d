#include "kernels/cpu/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace assay {
namespace cpu {

bool processor_has(InstructionSet set) {
#if defined(__x86_64__)
  // These ask the operating system too: whether it keeps the wide registers.
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return __builtin_cpu_supports("avx512vnni") && processor_has(InstructionSet::kAvx512);
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             processor_has(InstructionSet::kAvx2);
    case InstructionSet::kAvxVnni: {
      // Leaf 7, subleaf 1, bit 4 of EAX; compilers do not know its name yet.
      unsigned eax = 0;
      unsigned ebx = 0;
      unsigned ecx = 0;
      unsigned edx = 0;
      return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4U & 1U) != 0 &&
             processor_has(InstructionSet::kAvx2);
    }
    case InstructionSet::kAvx2:
      // Every processor with AVX2 has F16C, which not every compiler can ask for.
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::kPortable:
      break;
  }
#endif
  return set == InstructionSet::kPortable;
}

}  // namespace cpu

InstructionSet best_instruction_set() {
  for (const InstructionSet set : {InstructionSet::kAvx512Vnni, InstructionSet::kAvx512,
                                   InstructionSet::kAvxVnni, InstructionSet::kAvx2}) {
    if (cpu::processor_has(set)) return set;
  }
  return InstructionSet::kPortable;
}

}  // namespace assay
