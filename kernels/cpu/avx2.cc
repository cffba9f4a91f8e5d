#include "kernels/cpu/instruction_set.h"  // compiled with -mavx2 -mfma -mf16c: CMakeLists.txt
