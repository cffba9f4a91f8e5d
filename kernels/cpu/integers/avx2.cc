#include "kernels/cpu/integers/instruction_set.h"  // compiled for its instruction set: CMakeLists.txt
