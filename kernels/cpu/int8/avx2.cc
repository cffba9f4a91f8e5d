#include "kernels/cpu/int8/instruction_set.h"  // compiled for its instruction set: CMakeLists.txt
