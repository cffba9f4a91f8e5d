#include "kernels/cuda/exp.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/weights.h"

// Attention in three steps, each in the order of kernels/cpu/attention.h: the scores of all keys,
// their softmax, and the sum of the values. The scores stand in device memory between the steps.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kThreads = kLanes * kMaxGroups;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int64_t kKeyRun = 256;  // values are summed in runs that end at multiples of it

struct Queries {
  Global<const float> q;
  Global<const uint8_t> k;
  Global<const uint8_t> v;
  AttentionShape shape;
  int64_t first_position;
  int64_t max_keys;
  Global<float> scores;  // of key first_key + i at [token, head, i of max_keys]
  Global<float> out;

  __device__ int64_t first_key(int64_t position) const {
    const int64_t first = position - shape.window + 1;
    return shape.window > 0 && first > 0 ? first : 0;
  }
  // Element index of a key's or value's vector.
  __device__ int64_t kv_vector(int64_t key, int64_t head) const {
    const int64_t kv_head = head / (shape.n_heads / shape.n_kv_heads);
    return (key * shape.n_kv_heads + kv_head) * shape.head_dim;
  }
};

template <class Kv>
__device__ float kv_value(const Global<const uint8_t>& bytes, int64_t element) {
  return Kv::value(bytes.range(element * Kv::kBytes, Kv::kBytes), 0);
}

// A group of 16 lanes computes one score: of the query of token blockIdx.z, head blockIdx.y.
template <class Kv>
__global__ void score_kernel(Queries a) {
  const int64_t token = blockIdx.z;
  const int64_t head = blockIdx.y;
  const int64_t i = int64_t{blockIdx.x} * kMaxGroups + threadIdx.x / kLanes;
  const int64_t position = a.first_position + token;
  const int64_t key = a.first_key(position) + i;
  if (key > position) return;  // the whole group
  const int64_t query = token * a.shape.n_heads + head;
  const int64_t vector = a.kv_vector(key, head);
  float lane = 0.0F;
  for (int64_t d = lane_of_group(); d < a.shape.head_dim; d += kLanes) {
    lane = fmaf(a.q[query * a.shape.head_dim + d], kv_value<Kv>(a.k, vector + d), lane);
  }
  const float score = sum_lanes(lane) * a.shape.scale;
  if (lane_of_group() == 0) a.scores[query * a.max_keys + i] = score;
}

// The greatest of `value` over all threads of the block, in each of them; NaN is left out. There
// must be a barrier before it is called again.
__device__ float greatest_in_block(float value) {
  ASSAY_SHARED(float, greatest, kWarps);
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  if (threadIdx.x % kWarp == 0) greatest[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) value = fmaxf(value, greatest[warp]);
  return value;
}

// run += weight * value for the keys [begin, end), for element d of the head.
template <class Kv>
__device__ float sum_of_run(const Queries& a, int64_t scores, int64_t head, int64_t first_key,
                            int64_t begin, int64_t end, int64_t d) {
  float sum = 0.0F;
  for (int64_t key = begin; key < end; ++key) {
    const float value = kv_value<Kv>(a.v, a.kv_vector(key, head) + d);
    sum = fmaf(a.scores[scores + key - first_key], value, sum);
  }
  return sum;
}

// A block computes the softmax and the weighted values of one query. Each warp sums runs of keys
// for 32 elements of the head; warp 0 adds the runs in ascending order.
template <class Kv>
__global__ void value_kernel(Queries a) {
  const int64_t head = blockIdx.x;
  const int64_t token = blockIdx.y;
  const int64_t position = a.first_position + token;
  const int64_t first_key = a.first_key(position);
  const int64_t n_keys = position + 1 - first_key;
  const int64_t query = token * a.shape.n_heads + head;
  const int64_t scores = query * a.max_keys;

  float greatest = -INFINITY;
  for (int64_t i = threadIdx.x; i < n_keys; i += blockDim.x) {
    greatest = fmaxf(greatest, a.scores[scores + i]);
  }
  greatest = greatest_in_block(greatest);
  for (int64_t i = threadIdx.x; i < n_keys; i += blockDim.x) {
    a.scores[scores + i] = exp_of(a.scores[scores + i] - greatest);
  }
  __syncthreads();
  const auto weight_sum = static_cast<float>(
      sum_in_block(n_keys, [&](float lane, int64_t i) { return lane + a.scores[scores + i]; }));

  ASSAY_SHARED(float, runs, kThreads);
  const int64_t warp = threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first_run = first_key / kKeyRun * kKeyRun;
  for (int64_t d = lane; d - lane < a.shape.head_dim; d += kWarp) {
    const bool inside = d < a.shape.head_dim;
    float total = 0.0F;
    for (int64_t round = first_run; round <= position; round += kWarps * kKeyRun) {
      const int64_t run = round + warp * kKeyRun;
      const int64_t begin = run < first_key ? first_key : run;
      const int64_t end = run + kKeyRun > position ? position + 1 : run + kKeyRun;
      runs[threadIdx.x] = inside ? sum_of_run<Kv>(a, scores, head, first_key, begin, end, d) : 0.0F;
      __syncthreads();
      for (int w = 0; w < kWarps && warp == 0 && round + w * kKeyRun <= position; ++w) {
        total = total + runs[w * kWarp + lane];
      }
      __syncthreads();
    }
    if (warp == 0 && inside) a.out[query * a.shape.head_dim + d] = total / weight_sum;
  }
}

template <class Kv>
void attend(Device& device, const Queries& queries, int64_t n_tokens) {
  const auto heads = static_cast<unsigned>(queries.shape.n_heads);
  const auto tokens = static_cast<unsigned>(n_tokens);
  const unsigned key_blocks = blocks_for(queries.max_keys, kMaxGroups);
  ASSAY_LAUNCH(device, (LaunchShape{{key_blocks, heads, tokens}, {kThreads, 1, 1}, 0}),
               (score_kernel<Kv>), queries);
  ASSAY_LAUNCH(device, (LaunchShape{{heads, tokens, 1}, {kThreads, 1, 1}, 0}), (value_kernel<Kv>),
               queries);
}

}  // namespace

int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens) {
  const int64_t all = first_position + n_tokens;
  return shape.window > 0 && shape.window < all ? shape.window : all;
}

void attention(Device& device, const float* q, const KvView& kv, const AttentionShape& shape,
               int64_t first_position, int64_t n_tokens, float* scratch, float* out) {
  const int64_t max_keys = attention_keys(shape, first_position, n_tokens);
  const Queries queries = {q,
                           static_cast<const uint8_t*>(kv.k),
                           static_cast<const uint8_t*>(kv.v),
                           shape,
                           first_position,
                           max_keys,
                           scratch,
                           out};
  if (kv.type == KvType::kF32) {
    attend<F32>(device, queries, n_tokens);
  } else {
    attend<F16>(device, queries, n_tokens);
  }
}

}  // namespace assay::ASSAY_DEVICE
