#pragma once

#include "kernels/cuda/exp.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/weights.h"
#include "kernels/kernels.h"

// What the kernels of attention have in common; the order of all sums is that of
// kernels/cpu/attention.h.
namespace assay::ASSAY_DEVICE {

constexpr int kWarp = 32;
constexpr int kAttentionThreads = kLanes * kMaxGroups;
constexpr int kAttentionWarps = kAttentionThreads / kWarp;
constexpr int64_t kKeyRun = 256;  // values are summed in runs that end at multiples of it

// The keys and values of a layer.
struct Keys {
  Global<const uint8_t> k;
  Global<const uint8_t> v;
  AttentionShape shape;

  __device__ int64_t first_key(int64_t position) const {
    const int64_t first = position - shape.window + 1;
    return shape.window > 0 && first > 0 ? first : 0;
  }
  // The head of keys and values that a query's head reads. A division, which loops are to be
  // spared.
  __device__ int64_t kv_head(int64_t head) const {
    return static_cast<int64_t>(static_cast<uint32_t>(head) /
                                static_cast<uint32_t>(shape.n_heads / shape.n_kv_heads));
  }
  // Element index of a key's or value's vector.
  __device__ int64_t vector(int64_t key, int64_t kv_head) const {
    return (key * shape.n_kv_heads + kv_head) * shape.head_dim;
  }
};

inline Keys keys_of(const KvView& kv, const AttentionShape& shape) {
  return {static_cast<const uint8_t*>(kv.k), static_cast<const uint8_t*>(kv.v), shape};
}

template <class Kv>
__device__ float kv_value(const Global<const uint8_t>& bytes, int64_t element) {
  return Kv::value(bytes.range(element * Kv::kBytes, Kv::kBytes));
}

// The score of the query at q for `key` of head `kv_head`, in all lanes of the group.
template <class Kv>
__device__ float score(const Keys& keys, const Global<const float>& q, int64_t kv_head,
                       int64_t key) {
  const int64_t vector = keys.vector(key, kv_head);
  float lane = 0.0F;
  for (int64_t d = lane_of_group(); d < keys.shape.head_dim; d += kLanes) {
    lane = fmaf(q[d], kv_value<Kv>(keys.k, vector + d), lane);
  }
  return sum_lanes(lane) * keys.shape.scale;
}

// The greatest of `value` over all threads of the block, in each of them; NaN is left out. There
// must be a barrier before it is called again.
__device__ inline float greatest_in_block(float value) {
  ASSAY_SHARED(float, greatest, kAttentionWarps);
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  if (threadIdx.x % kWarp == 0) greatest[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (int warp = 0; warp < kAttentionWarps; ++warp) value = fmaxf(value, greatest[warp]);
  return value;
}

// The greatest of n scores, in all threads of the block.
template <class Array>
__device__ float greatest_of(const Array& scores, int64_t n) {
  float greatest = -INFINITY;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) greatest = fmaxf(greatest, scores[i]);
  return greatest_in_block(greatest);
}

// scores[n] become e^(score - greatest score); gives their sum, the sink's weight included: a score
// without a key, -infinity for none. Barriers stand at its beginning's reads and at its end.
template <class Array>
__device__ float softmax_in_block(const Array& scores, int64_t n, float sink = -INFINITY) {
  const float greatest = fmaxf(greatest_of(scores, n), sink);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) scores[i] = exp_of(scores[i] - greatest);
  __syncthreads();
  const double sum = sum_in_block(n, [&](float lane, int64_t i) { return lane + scores[i]; });
  return static_cast<float>(sum + static_cast<double>(exp_of(sink - greatest)));
}

// The sum of weights[key - first_key] * value over the keys [begin, end), of element d of the head.
template <class Kv, class Array>
__device__ float sum_of_run(const Keys& keys, const Array& weights, int64_t kv_head,
                            int64_t first_key, int64_t begin, int64_t end, int64_t d) {
  float sum = 0.0F;
  ASSAY_UNROLL_BY_4
  for (int64_t key = begin; key < end; ++key) {
    const float value = kv_value<Kv>(keys.v, keys.vector(key, kv_head) + d);
    sum = fmaf(weights[key - first_key], value, sum);
  }
  return sum;
}

}  // namespace assay::ASSAY_DEVICE
