#include "kernels/cuda/delta.cu"
