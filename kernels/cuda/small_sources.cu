// Sources that nvcc takes no longer for than for the headers that they all read: 3 to 5 s each.
#include "kernels/cuda/delta.cu"
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/fused_ends.cu"
#include "kernels/cuda/halves.cu"
#include "kernels/cuda/norms.cu"
#include "kernels/cuda/streams.cu"
