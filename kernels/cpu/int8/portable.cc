// Plain C++ even if the compiler is told that the processor can do more.
#define ASSAY_FORCE_PORTABLE
#include "kernels/cpu/int8/instruction_set.h"
