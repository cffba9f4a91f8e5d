#include "kernels/cuda/fused_ends.cu"
