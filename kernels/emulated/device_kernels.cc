#include "kernels/cuda/device_kernels.cu"
