#include "kernels/cuda/matmul.cu"
