// The device layer, by the host's compiler, for FakeCuda.
#include "kernels/cuda/device.cu"
#include "kernels/cuda/staged_copies.cu"
