#include "kernels/cuda/halves.cu"
