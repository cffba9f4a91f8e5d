#include "kernels/cpu/instruction_set.h"  // compiled with -mavx512f, bw, vl, dq: CMakeLists.txt
