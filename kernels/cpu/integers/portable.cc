// Plain C++ even if compiler flags allow more instructions.
#define ASSAY_FORCE_PORTABLE
#include "kernels/cpu/integers/instruction_set.h"
