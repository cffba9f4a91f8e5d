#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/emulated/counts.h"
#include "kernels/emulated/instruction_counts.h"
#include "kernels/kernels.h"

namespace assay {

// The CUDA kernels, run by the CPU and watched while they run: an access out of bounds, a race for
// shared memory or a barrier that not all threads reach is an Error with its kernel, block, thread
// and line. `seed` permutes the order in which blocks and threads run, which changes no result; 0:
// ascending. Throws Error if this build has none. With `counts_instructions`, which takes several
// times as long, take_instruction_counts() says what they asked of memory.
std::unique_ptr<Kernels> make_emulated_kernels(uint64_t seed = 0, Math math = Math::kExact,
                                               bool counts_instructions = false);

// Of kernels that make_emulated_kernels() made, since then. Throws Error for others.
EmulatedCounts emulated_counts(Kernels& kernels);

// By kernel, since the last call, of those that count. Throws Error for kernels that are not
// emulated.
std::map<std::string, KernelCounts> take_instruction_counts(Kernels& kernels);

// Whether this build has them.
bool has_emulated_kernels();

}  // namespace assay
