#include "kernels/cuda/device_kernels.cc"
