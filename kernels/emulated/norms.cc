#include "kernels/cuda/norms.cu"
