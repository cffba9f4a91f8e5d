#include "kernels/cuda/packed_matmul.cu"
