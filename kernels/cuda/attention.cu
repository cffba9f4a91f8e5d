#include <type_traits>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/ops.h"

// Attention of several tokens in three steps: the scores of all keys, their softmax, and the sum of
// the values. The scores stand in device memory between the steps. Scores and sums are computed by
// tiles, so that what is read of a key or a value serves 32 queries.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kTile = 32;                          // of queries, of keys, and of elements of a head
constexpr int kQueries = kTile / kAttentionWarps;  // of a tile, that a warp has
constexpr int kDepth = 64;                         // elements of a head that are staged at a time
constexpr int kQuads = kDepth / 4;
constexpr int kKeyStride = kQuads + 1;        // so that a warp's threads read from all banks
constexpr int kWeightStride = kTile / 4 + 1;  // likewise

struct Queries {
  Global<const float> q;
  Keys keys;
  int64_t first_position;
  int64_t n_tokens;
  int64_t first_key;  // that the first query sees
  int64_t max_keys;
  Global<float> scores;  // of key first_key(position) + i at [token, head, i of max_keys]
  Global<float> sums;    // of a query's scores after the softmax: [token, head]
  Global<float> out;
  Global<const float> sinks;  // [n_heads], or null
  int64_t value_dim;

  __device__ int64_t index(int64_t token, int64_t head) const {
    return token * keys.shape.n_heads + head;
  }
  // The positions of the tile of queries that begins at `token`.
  __device__ int64_t first_of(int64_t token) const { return first_position + token; }
  __device__ int64_t last_of(int64_t token) const {
    const int64_t left = n_tokens - token;
    return first_position + token + (left < kTile ? left : kTile) - 1;
  }
};

template <class Element>
__device__ float4 four_of(const Element& element, int first) {
  return {element(first), element(first + 1), element(first + 2), element(first + 3)};
}

__device__ void add_products(const float4& a, const float4& b, float (&lanes)[kLanes], int first) {
  lanes[first] = fmaf(a.x, b.x, lanes[first]);
  lanes[first + 1] = fmaf(a.y, b.y, lanes[first + 1]);
  lanes[first + 2] = fmaf(a.z, b.z, lanes[first + 2]);
  lanes[first + 3] = fmaf(a.w, b.w, lanes[first + 3]);
}

// A block has the scores of 32 keys, a thread's own, with 32 queries, four a warp. Thread by thread
// the sixteen lanes of a dot product (lanes.h) are sixteen sums.
template <class Kv>
ASSAY_KERNEL(kAttentionThreads, 2, score_kernel, ASSAY_CONSTANT(Queries) a) {
  const int64_t first_key = a.first_key + int64_t{blockIdx.x} * kTile;
  const int64_t head = blockIdx.y;
  const int64_t first_token = int64_t{blockIdx.z} * kTile;
  const int64_t last_position = a.last_of(first_token);
  if (first_key > last_position) return;  // the whole block
  if (first_key + kTile <= a.keys.first_key(a.first_of(first_token))) return;

  ASSAY_SHARED(float4, keys, kTile * kKeyStride);
  ASSAY_SHARED(float4, queries, kTile * kQuads);
  const auto head_dim = static_cast<int>(a.keys.shape.head_dim);
  const int64_t kv_head = a.keys.kv_head(head);
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  float sums[kQueries][kLanes] = {};
  ASSAY_NO_UNROLL
  for (int done = 0; done < head_dim; done += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kQuads; i += kAttentionThreads) {
      const int row = i / kQuads;
      const int d = done + i % kQuads * 4;
      const int64_t key = first_key + row;
      const int64_t token = first_token + row;
      // How many elements the key's and the query's vector have.
      const int of_key = key <= last_position ? head_dim : 0;
      const int of_query = token < a.n_tokens ? head_dim : 0;
      const int64_t key_at = a.keys.vector(key, kv_head);
      const int64_t query_at = a.index(token, head) * head_dim;
      keys[row * kKeyStride + i % kQuads] =
          four_of([&](int e) { return e < of_key ? kv_value<Kv>(a.keys.k, key_at + e) : 0.0F; }, d);
      queries[row * kQuads + i % kQuads] =
          four_of([&](int e) { return e < of_query ? a.q[query_at + e] : 0.0F; }, d);
    }
    __syncthreads();
    ASSAY_NO_UNROLL
    for (int quad = 0; quad < kQuads; quad += kLanes / 4) {
      ASSAY_UNROLL
      for (int part = 0; part < kLanes / 4; ++part) {
        const float4 key = keys[lane * kKeyStride + quad + part];
        ASSAY_UNROLL
        for (int i = 0; i < kQueries; ++i) {
          const float4 query = queries[(warp * kQueries + i) * kQuads + quad + part];
          add_products(query, key, sums[i], part * 4);
        }
      }
    }
    __syncthreads();
  }
  const int64_t key = first_key + lane;
  ASSAY_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    const int64_t token = first_token + warp * kQueries + i;
    const int64_t position = a.first_of(token);
    float score = sum_of_lanes(sums[i]) * a.keys.shape.scale;
    if (a.keys.shape.soft_cap > 0.0F) score = soft_capped(score, a.keys.shape.soft_cap);
    const int64_t at = key - a.keys.first_key(position);
    if (token >= a.n_tokens || key > position || at < 0) continue;
    a.scores[a.index(token, head) * a.max_keys + at] = score;
  }
}

// A block has one query.
__global__ void softmax_kernel(Queries a) {
  const int64_t query = a.index(blockIdx.y, blockIdx.x);
  const int64_t position = a.first_of(blockIdx.y);
  const float sink = a.sinks ? static_cast<float>(a.sinks[blockIdx.x]) : -INFINITY;
  const float sum = softmax_in_block(a.scores.from(query * a.max_keys),
                                     position + 1 - a.keys.first_key(position), sink);
  if (threadIdx.x == 0) a.sums[query] = sum;
}

// The keys that a query sees, and where its weights are.
struct Seen {
  int first = 0;
  int last = -1;
  int64_t weights = 0;  // index of that of key 0, if there were one

  __device__ bool has(int key) const { return key >= first && key <= last; }
};

// A block has 32 elements of a head, a thread's own, for 32 queries, four a warp. Each sums runs of
// keys, and adds the runs in ascending order.
template <class Kv>
ASSAY_KERNEL(kAttentionThreads, 2, value_kernel, ASSAY_CONSTANT(Queries) a) {
  ASSAY_SHARED(float, values, kTile* kTile);             // [key, element]
  ASSAY_SHARED(float4, weights, kTile * kWeightStride);  // [key, query]
  const auto n_heads = static_cast<unsigned>(a.keys.shape.n_heads);
  const int64_t head = blockIdx.x % n_heads;
  const int64_t value_dim = a.value_dim;
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t element = int64_t{blockIdx.x / n_heads} * kTile + lane;
  const int64_t first_token = int64_t{blockIdx.y} * kTile;
  const int64_t own_token = first_token + warp * kQueries;
  const auto first_key = static_cast<int>(a.keys.first_key(a.first_of(first_token)));
  const auto last_key = static_cast<int>(a.last_of(first_token));
  // Keys that all queries of the tile see.
  const Seen by_all = {static_cast<int>(a.keys.first_key(last_key)),
                       static_cast<int>(a.first_of(first_token))};
  Seen seen[kQueries];
  ASSAY_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    if (own_token + i >= a.n_tokens) continue;
    const int64_t position = a.first_of(own_token + i);
    const int64_t first = a.keys.first_key(position);
    seen[i] = {static_cast<int>(first), static_cast<int>(position),
               a.index(own_token + i, head) * a.max_keys - first};
  }
  const int64_t value_stride = a.keys.shape.n_kv_heads * value_dim;
  const int64_t own_value = a.keys.kv_head(head) * value_dim + element;
  float totals[kQueries] = {};
  float runs[kQueries] = {};
  ASSAY_NO_UNROLL
  for (int begin = first_key / kTile * kTile; begin <= last_key; begin += kTile) {
    ASSAY_UNROLL
    for (int i = 0; i < kQueries; ++i) {
      const int row = warp * kQueries + i;
      const int key = begin + row;
      const bool is_there = key >= first_key && key <= last_key && element < value_dim;
      values[row * kTile + lane] =
          is_there ? kv_value<Kv>(a.keys.v, key * value_stride + own_value) : 0.0F;
    }
    weights[lane * kWeightStride + warp] = four_of(
        [&](int i) {
          const int key = begin + lane;
          return seen[i].has(key) ? static_cast<float>(a.scores[seen[i].weights + key]) : 0.0F;
        },
        0);
    __syncthreads();
    const auto add_keys = [&](auto are_all_seen) {
      ASSAY_UNROLL_BY_4
      for (int key = 0; key < kTile; ++key) {
        const float4 four = weights[key * kWeightStride + warp];
        const float value = values[key * kTile + lane];
        const float own[kQueries] = {four.x, four.y, four.z, four.w};
        ASSAY_UNROLL
        for (int i = 0; i < kQueries; ++i) {
          // What a query does not see may be no number.
          if (decltype(are_all_seen)::value || seen[i].has(begin + key)) {
            runs[i] = fmaf(own[i], value, runs[i]);
          }
        }
      }
    };
    if (by_all.has(begin) && by_all.has(begin + kTile - 1)) {
      add_keys(std::true_type{});
    } else {
      add_keys(std::false_type{});
    }
    if ((begin + kTile) % kKeyRun == 0 || begin + kTile > last_key) {
      ASSAY_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        totals[i] = totals[i] + runs[i];
        runs[i] = 0.0F;
      }
    }
    __syncthreads();
  }
  if (element >= value_dim) return;
  ASSAY_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    if (own_token + i >= a.n_tokens) break;
    const int64_t query = a.index(own_token + i, head);
    a.out[query * value_dim + element] = totals[i] / a.sums[query];
  }
}

template <class Kv>
void attend(Device& device, const Queries& queries) {
  const auto heads = static_cast<unsigned>(queries.keys.shape.n_heads);
  const auto tokens = static_cast<unsigned>(queries.n_tokens);
  const unsigned query_tiles = blocks_for(queries.n_tokens, kTile);
  const unsigned key_tiles =
      blocks_for(queries.first_position + queries.n_tokens - queries.first_key, kTile);
  const unsigned parts = blocks_for(queries.value_dim, kTile);
  ASSAY_LAUNCH(device, (LaunchShape{{key_tiles, heads, query_tiles}, {kAttentionThreads, 1, 1}, 0}),
               (score_kernel<Kv>), queries);
  ASSAY_LAUNCH(device, (LaunchShape{{heads, tokens, 1}, {kAttentionThreads, 1, 1}, 0}),
               softmax_kernel, queries);
  ASSAY_LAUNCH(device, (LaunchShape{{heads * parts, query_tiles, 1}, {kAttentionThreads, 1, 1}, 0}),
               (value_kernel<Kv>), queries);
}

}  // namespace

int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens) {
  const int64_t all = first_position + n_tokens;
  return shape.window > 0 && shape.window < all ? shape.window : all;
}

int64_t attention_scratch(const AttentionShape& shape, int64_t first_position, int64_t n_tokens) {
  return n_tokens * shape.n_heads * (attention_keys(shape, first_position, n_tokens) + 1);
}

void attention(Device& device, const AttentionCall& call, float* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t max_keys = attention_keys(shape, call.first_position, call.n_tokens);
  const int64_t hidden = shape.window > 0 ? call.first_position - shape.window + 1 : 0;
  const Queries queries = {call.q,
                           keys_of(call.kv, shape),
                           call.first_position,
                           call.n_tokens,
                           hidden > 0 ? hidden : 0,
                           max_keys,
                           scratch,
                           scratch + call.n_tokens * shape.n_heads * max_keys,
                           call.out,
                           call.sinks,
                           shape.value_dim()};
  if (call.kv.type == KvType::kF32) {
    attend<F32>(device, queries);
  } else {
    attend<F16>(device, queries);
  }
}

}  // namespace assay::ASSAY_DEVICE
