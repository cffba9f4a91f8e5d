#include "kernels/cuda/elementwise.cu"
