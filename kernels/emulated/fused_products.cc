#include "kernels/cuda/fused_products.cu"
