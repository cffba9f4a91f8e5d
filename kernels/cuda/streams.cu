#include "kernels/cuda/lanes.h"
#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kStreamThreads = kLanes * kMaxGroups;

// The steps that read single elements: a thread has one of a token's first stream, and computes it
// of all streams.
__global__ void streams_kernel(StreamStep step, Global<const float> x, Global<const float> y,
                               Global<const float> coefs, Global<const float> weight, int64_t n,
                               int64_t width, int64_t count, Global<float> out) {
  const int64_t element = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (element >= count) return;
  const int64_t token = element / width;
  const int64_t first = token * n * width + element % width;
  if (step == StreamStep::kFirst) {
    out[element] = weight ? x[first] * weight[element % width] : x[first];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = first + i * width;
    if (step == StreamStep::kSpread) {
      out[at] = i == 0 ? x[at] : x[at] + y[element];
    } else if (step == StreamStep::kPredict) {
      double sum = x[at];
      for (int64_t j = 0; j < n; ++j) {
        sum += static_cast<double>(coefs[(token * n + i) * n + j]) *
               static_cast<double>(x[first + j * width]);
      }
      out[at] = static_cast<float>(sum);
    } else {
      const double innovation = static_cast<double>(y[element]) - static_cast<double>(x[first]);
      const double factor = 1.0 + static_cast<double>(coefs[token * n + i]);
      out[at] = static_cast<float>(static_cast<double>(x[at]) + innovation * factor);
    }
  }
}

__device__ double mean_square(const Global<const float>& row, int64_t width) {
  const double squares = sum_in_block(
      width, [&](int i) -> double { return row[i]; }, PlusSquare());
  __syncthreads();  // before the next sum's runs
  return squares / static_cast<double>(width);
}

__device__ double scale_to(double wanted, const Global<const float>& row, int64_t width) {
  const double own = mean_square(row, width);
  constexpr double kLeast = StreamsCall::kLeastMeanSquare;
  return sqrt(wanted) / sqrt(own < kLeast ? kLeast : own);
}

// A block joins a token's streams, or merges them.
__global__ void join_kernel(Global<const float> x, Global<const float> y, int64_t n, int64_t width,
                            Global<float> out) {
  const int64_t token = blockIdx.x;
  const Global<const float> own = x.from(token * width);
  const Global<float> joined = out.from(token * n * width);
  const double wanted = mean_square(own, width);
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) joined[d] = own[d];
  for (int64_t i = 0; i + 1 < n; ++i) {
    const Global<const float> other = y.from((token * (n - 1) + i) * width);
    const double factor = scale_to(wanted, other, width);
    for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
      joined[(i + 1) * width + d] = static_cast<float>(other[d] * factor);
    }
  }
}

__global__ void merge_kernel(Global<const float> x, Global<const float> y, int64_t n, int64_t width,
                             Global<float> out) {
  ASSAY_SHARED(double, factors, StreamsCall::kMostStreams);
  const int64_t token = blockIdx.x;
  const Global<const float> own = x.from(token * n * width);
  const Global<const float> others = y.from(token * (n - 1) * width);
  const double wanted = mean_square(own, width);
  for (int64_t i = 0; i + 1 < n; ++i) {
    const double factor = scale_to(wanted, others.from(i * width), width);
    if (threadIdx.x == 0) factors[i] = factor;
  }
  __syncthreads();
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    double sum = own[d];
    for (int64_t i = 0; i + 1 < n; ++i) sum += others[i * width + d] * factors[i];
    out[token * width + d] = static_cast<float>(sum / static_cast<double>(n));
  }
}

}  // namespace

void run(Device& device, const StreamsCall& call) {
  const LaunchShape of_tokens{
      {static_cast<unsigned>(call.n_tokens), 1, 1}, {kStreamThreads, 1, 1}, 0};
  if (call.step == StreamStep::kJoin) {
    ASSAY_LAUNCH(device, of_tokens, join_kernel, call.x, call.y, call.n_streams, call.width,
                 call.out);
  } else if (call.step == StreamStep::kMerge) {
    ASSAY_LAUNCH(device, of_tokens, merge_kernel, call.x, call.y, call.n_streams, call.width,
                 call.out);
  } else {
    const int64_t count = call.n_tokens * call.width;
    ASSAY_LAUNCH(device, one_thread_each(count), streams_kernel, call.step, call.x, call.y,
                 call.coefs, call.weight, call.n_streams, call.width, count, call.out);
  }
}

}  // namespace assay::ASSAY_DEVICE
