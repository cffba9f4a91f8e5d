#pragma once

#include "kernels/kernels.h"

namespace assay::cpu {

// Whether this processor has the instructions, and the operating system keeps their registers.
bool processor_has(InstructionSet set);

}  // namespace assay::cpu
