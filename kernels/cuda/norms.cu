#include "kernels/cuda/elementary.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kNormThreads = kLanes * kMaxGroups;

// A block normalises one token.
__global__ void rms_norm_kernel(Global<const float> rows, Global<const float> weights, float eps,
                                int64_t width, int64_t stride, unsigned n_weights,
                                Global<float> out) {
  const Global<const float> x = rows.from(int64_t{blockIdx.x} * stride);
  const int64_t row = int64_t{blockIdx.x} * width;
  const Global<const float> weight = weights.from(int64_t{blockIdx.x % n_weights} * width);
  const double squares = sum_in_block(
      width, [&](int i) -> double { return x[i]; }, PlusSquare());
  const double factor = inverse_root(squares, width, eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    out[row + i] = static_cast<float>(x[i] * factor * weight[i]);
  }
}

__global__ void layer_norm_kernel(Global<const float> rows, Global<const float> weights,
                                  Global<const float> bias, float eps, int64_t width,
                                  int64_t stride, unsigned n_weights, Global<float> out) {
  const Global<const float> x = rows.from(int64_t{blockIdx.x} * stride);
  const int64_t row = int64_t{blockIdx.x} * width;
  const Global<const float> weight = weights.from(int64_t{blockIdx.x % n_weights} * width);
  const double total = sum_in_block(width, [&](int i) -> double { return x[i]; });
  const double mean = total / static_cast<double>(width);
  const double squares = sum_in_block(width, [&](int i) {
    const double centred = x[i] - mean;
    return centred * centred;
  });
  const double factor = inverse_root(squares, width, eps);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const double scaled = (x[i] - mean) * factor * weight[i];
    out[row + i] = static_cast<float>(bias ? scaled + bias[i] : scaled);
  }
}

__global__ void cutoff_kernel(Global<const float> rows, float factor, int64_t width,
                              Global<float> out) {
  const int64_t row = int64_t{blockIdx.x} * width;
  const Global<const float> x = rows.from(row);
  const double total = sum_in_block(width, [&](int i) -> double { return x[i]; });
  const double mean = total / static_cast<double>(width);
  const double squares = sum_in_block(width, [&](int i) {
    const double centred = x[i] - mean;
    return centred * centred;
  });
  const double cutoff = mean + factor * sqrt(squares / static_cast<double>(width));
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const double above = x[i] - cutoff;
    out[row + i] = static_cast<float>(0.0 > above ? 0.0 : above);
  }
}

}  // namespace

void run(Device& device, const CutoffCall& call) {
  const LaunchShape shape{{static_cast<unsigned>(call.n_tokens), 1, 1}, {kNormThreads, 1, 1}, 0};
  ASSAY_LAUNCH(device, shape, cutoff_kernel, call.x, call.factor, call.width, call.out);
}

void run(Device& device, const NormCall& call) {
  const LaunchShape shape{{static_cast<unsigned>(call.n_tokens), 1, 1}, {kNormThreads, 1, 1}, 0};
  const auto n_weights = static_cast<unsigned>(call.n_weights);
  if (call.kind == NormKind::kRms) {
    ASSAY_LAUNCH(device, shape, rms_norm_kernel, call.x, call.weight, call.eps, call.width,
                 call.x_stride(), n_weights, call.out);
  } else {
    ASSAY_LAUNCH(device, shape, layer_norm_kernel, call.x, call.weight, call.bias, call.eps,
                 call.width, call.x_stride(), n_weights, call.out);
  }
}

}  // namespace assay::ASSAY_DEVICE
