#include "kernels/cuda/tile_matmul.cu"
