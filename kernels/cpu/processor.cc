#include "kernels/cpu/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace assay {
namespace cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// Whether a process may use tiles, which the operating system keeps for those only that ask.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // the number of that part of a processor's state
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Some virtual machines say that they have AMX, and reject its instructions: a child process finds
// out.
bool survives_tiles() {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);  // what ends the child is no crash
    struct {
      uint8_t palette = 1;
      uint8_t others[15] = {};
      uint16_t row_bytes[16] = {64, 64, 64};
      uint8_t n_rows[16] = {16, 16, 16};
    } shapes;
    int32_t sums[256];
    int8_t ones[1024];
    for (int8_t& one : ones) one = 1;
    // tmm0 = the products of tmm1 and tmm2, all 1: 64 each.
    __asm__ volatile(
        "ldtilecfg (%[shapes])\n\t"
        "tilezero %%tmm0\n\t"
        "tileloadd (%[ones], %[stride], 1), %%tmm1\n\t"
        "tileloadd (%[ones], %[stride], 1), %%tmm2\n\t"
        "tdpbssd %%tmm2, %%tmm1, %%tmm0\n\t"
        "tilestored %%tmm0, (%[sums], %[stride], 1)\n\t"
        "tilerelease"
        :
        : [shapes] "r"(&shapes), [ones] "r"(ones), [sums] "r"(sums), [stride] "r"(int64_t{64})
        : "memory");
    bool right = true;
    for (const int32_t sum : sums) right = right && sum == 64;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool has_amx() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool claims = (edx >> 24U & 1U) != 0 && (edx >> 25U & 1U) != 0;  // AMX-TILE, AMX-INT8
  return claims && may_use_tiles() && survives_tiles();
}
#else
bool has_amx() {
  return false;
}
#endif

}  // namespace

bool processor_has(InstructionSet set) {
#if defined(__x86_64__)
  // These ask the operating system too: whether it keeps the wide registers.
  switch (set) {
    case InstructionSet::kAmx: {
      static const bool has = processor_has(InstructionSet::kAvx512Vnni) && has_amx();
      return has;
    }
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
  for (const InstructionSet set :
       {InstructionSet::kAmx, InstructionSet::kAvx512Vnni, InstructionSet::kAvx512,
        InstructionSet::kAvxVnni, InstructionSet::kAvx2}) {
    if (cpu::processor_has(set)) return set;
  }
  return InstructionSet::kPortable;
}

}  // namespace assay
