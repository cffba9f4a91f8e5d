#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"

// What a library multiplies: weights and vectors as F16 or BF16.
namespace assay::ASSAY_DEVICE {
namespace {

__device__ uint16_t half_of(float value, TensorType half) {
  return half == TensorType::kBF16 ? bf16_from_float(value) : f16_from_float(value);
}

__global__ void halves_kernel(Rows rows, TensorType half, int64_t count, Global<uint16_t> out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = half_of(element_of(rows, i / rows.columns, i % rows.columns), half);
}

__global__ void bias_kernel(Global<const float> bias, int64_t rows, int64_t count,
                            Global<float> out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = bias[i % rows];
}

}  // namespace

const void* halves_of(Device& device, const WeightMatrix& w, TensorType half, uint16_t* scratch) {
  if (w.type == half) return w.data;
  const int64_t count = w.rows * w.columns;
  ASSAY_LAUNCH(device, one_thread_each(count), halves_kernel, rows_of(w, nullptr), half, count,
               scratch);
  return scratch;
}

void fill_with_bias(Device& device, const MatmulCall& call) {
  const int64_t count = call.n_tokens * call.w.rows;
  ASSAY_LAUNCH(device, one_thread_each(count), bias_kernel, call.bias, call.w.rows, count,
               call.out);
}

}  // namespace assay::ASSAY_DEVICE
