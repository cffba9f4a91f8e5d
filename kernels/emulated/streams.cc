#include "kernels/cuda/streams.cu"
