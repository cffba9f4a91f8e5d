// The device layer, by the host's compiler, for FakeCuda.
#include "kernels/cuda/device.cc"
#include "kernels/cuda/staged_copies.cc"
