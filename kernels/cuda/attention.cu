#include "kernels/cuda/attention.h"
#include "kernels/cuda/ops.h"

// Attention in three steps: the scores of all keys, their softmax, and the sum of the values. The
// scores stand in device memory between the steps.
namespace assay::ASSAY_DEVICE {
namespace {

struct Queries {
  Global<const float> q;
  Keys keys;
  int64_t first_position;
  int64_t max_keys;
  Global<float> scores;  // of key first_key + i at [token, head, i of max_keys]
  Global<float> out;
};

// A group of 16 lanes computes one score: of the query of token blockIdx.z, head blockIdx.y.
template <class Kv>
__global__ void score_kernel(Queries a) {
  const int64_t token = blockIdx.z;
  const int64_t head = blockIdx.y;
  const int64_t i = int64_t{blockIdx.x} * kMaxGroups + threadIdx.x / kLanes;
  const int64_t position = a.first_position + token;
  const int64_t key = a.keys.first_key(position) + i;
  if (key > position) return;  // the whole group
  const int64_t query = token * a.keys.shape.n_heads + head;
  const float value = score<Kv>(a.keys, a.q.from(query * a.keys.shape.head_dim), head, key);
  if (lane_of_group() == 0) a.scores[query * a.max_keys + i] = value;
}

// A block computes the softmax and the weighted values of one query. Each warp sums runs of keys
// for 32 elements of the head; warp 0 adds the runs in ascending order.
template <class Kv>
__global__ void value_kernel(Queries a) {
  const int64_t head = blockIdx.x;
  const int64_t token = blockIdx.y;
  const int64_t head_dim = a.keys.shape.head_dim;
  const int64_t position = a.first_position + token;
  const int64_t first_key = a.keys.first_key(position);
  const int64_t query = token * a.keys.shape.n_heads + head;
  const Global<float> weights = a.scores.from(query * a.max_keys);
  const float weight_sum = softmax_in_block(weights, position + 1 - first_key);

  ASSAY_SHARED(float, runs, kAttentionThreads);
  const int64_t warp = threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t first_run = first_key / kKeyRun * kKeyRun;
  for (int64_t d = lane; d - lane < head_dim; d += kWarp) {
    const bool inside = d < head_dim;
    float total = 0.0F;
    for (int64_t round = first_run; round <= position; round += kAttentionWarps * kKeyRun) {
      const int64_t run = round + warp * kKeyRun;
      const int64_t begin = run < first_key ? first_key : run;
      const int64_t end = run + kKeyRun > position ? position + 1 : run + kKeyRun;
      runs[threadIdx.x] =
          inside ? sum_of_run<Kv>(a.keys, weights, head, first_key, begin, end, d) : 0.0F;
      __syncthreads();
      for (int w = 0; w < kAttentionWarps && warp == 0 && round + w * kKeyRun <= position; ++w) {
        total = total + runs[w * kWarp + lane];
      }
      __syncthreads();
    }
    if (warp == 0 && inside) a.out[query * head_dim + d] = total / weight_sum;
  }
}

template <class Kv>
void attend(Device& device, const Queries& queries, int64_t n_tokens) {
  const auto heads = static_cast<unsigned>(queries.keys.shape.n_heads);
  const auto tokens = static_cast<unsigned>(n_tokens);
  const unsigned key_blocks = blocks_for(queries.max_keys, kMaxGroups);
  ASSAY_LAUNCH(device, (LaunchShape{{key_blocks, heads, tokens}, {kAttentionThreads, 1, 1}, 0}),
               (score_kernel<Kv>), queries);
  ASSAY_LAUNCH(device, (LaunchShape{{heads, tokens, 1}, {kAttentionThreads, 1, 1}, 0}),
               (value_kernel<Kv>), queries);
}

}  // namespace

int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens) {
  const int64_t all = first_position + n_tokens;
  return shape.window > 0 && shape.window < all ? shape.window : all;
}

void attention(Device& device, const float* q, const KvView& kv, const AttentionShape& shape,
               int64_t first_position, int64_t n_tokens, float* scratch, float* out) {
  const int64_t max_keys = attention_keys(shape, first_position, n_tokens);
  const Queries queries = {q, keys_of(kv, shape), first_position, max_keys, scratch, out};
  if (kv.type == KvType::kF32) {
    attend<F32>(device, queries, n_tokens);
  } else {
    attend<F16>(device, queries, n_tokens);
  }
}

}  // namespace assay::ASSAY_DEVICE
