#include "kernels/cuda/fused_attention.cu"
