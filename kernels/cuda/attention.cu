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

// Adjacent numbers that are read from shared memory at once.
template <class Number>
constexpr int kPacked = 16 / sizeof(Number);
template <class Number>
struct alignas(16) Pack {
  Number of[kPacked<Number>];
};

// Packs of a key, or of a query, that are staged.
template <class Number>
constexpr int kPacksOfKey = kDepth / kPacked<Number>;
// From one key's to the next one's, so that a warp's threads read from all banks.
template <class Number>
constexpr int kKeyStride = kPacksOfKey<Number> + 1;
// Likewise, of the weights that 32 queries have for a key.
template <class Number>
constexpr int kWeightStride = kTile / kPacked<Number> + 1;

template <class Number>
struct Queries {
  Global<const float> q;
  Keys keys;
  int64_t first_position;
  int64_t n_tokens;
  int64_t first_key;  // that the first query sees
  int64_t max_keys;
  Global<Number> scores;  // of key first_key(position) + i at [token, head, i of max_keys]
  Global<Number> sums;    // of a query's scores after the softmax: [token, head]
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

// element(first), element(first + 1), ...
template <class Number, class Element>
__device__ Pack<Number> pack_of(const Element& element, int first) {
  Pack<Number> pack;
  ASSAY_UNROLL
  for (int i = 0; i < kPacked<Number>; ++i) pack.of[i] = element(first + i);
  return pack;
}

// Blocks of score_kernel that find room on a multiprocessor: each thread holds 64 sums.
template <class Number>
constexpr int kScoreBlocks = std::is_same_v<Number, double> ? 1 : 2;

// A block has the scores of 32 keys, a thread's own, with 32 queries, four a warp. Thread by thread
// the sixteen lanes of a dot product (lanes.h) are sixteen sums.
template <class Kv, class Number>
ASSAY_KERNEL(kAttentionThreads, kScoreBlocks<Number>, score_kernel,
             ASSAY_CONSTANT(Queries<Number>) a) {
  const int64_t first_key = a.first_key + int64_t{blockIdx.x} * kTile;
  const int64_t head = blockIdx.y;
  const int64_t first_token = int64_t{blockIdx.z} * kTile;
  const int64_t last_position = a.last_of(first_token);
  if (first_key > last_position) return;  // the whole block
  if (first_key + kTile <= a.keys.first_key(a.first_of(first_token))) return;

  constexpr int kPacks = kPacksOfKey<Number>;
  ASSAY_SHARED(Pack<Number>, keys, kTile * kKeyStride<Number>);
  ASSAY_SHARED(Pack<Number>, queries, kTile * kPacks);
  const auto head_dim = static_cast<int>(a.keys.shape.head_dim);
  const int64_t kv_head = a.keys.kv_head(head);
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  Number sums[kQueries][kLanes] = {};
  ASSAY_NO_UNROLL
  for (int done = 0; done < head_dim; done += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kPacks; i += kAttentionThreads) {
      const int row = i / kPacks;
      const int d = done + i % kPacks * kPacked<Number>;
      const int64_t key = first_key + row;
      const int64_t token = first_token + row;
      // How many elements the key's and the query's vector have.
      const int of_key = key <= last_position ? head_dim : 0;
      const int of_query = token < a.n_tokens ? head_dim : 0;
      const int64_t key_at = a.keys.vector(key, kv_head);
      const int64_t query_at = a.index(token, head) * head_dim;
      keys[row * kKeyStride<Number> + i % kPacks] = pack_of<Number>(
          [&](int e) { return e < of_key ? kv_value<Kv>(a.keys.k, key_at + e) : 0.0F; }, d);
      queries[row * kPacks + i % kPacks] =
          pack_of<Number>([&](int e) { return e < of_query ? a.q[query_at + e] : 0.0F; }, d);
    }
    __syncthreads();
    ASSAY_NO_UNROLL
    for (int pack = 0; pack < kPacks; pack += kLanes / kPacked<Number>) {
      ASSAY_UNROLL
      for (int part = 0; part < kLanes / kPacked<Number>; ++part) {
        const Pack<Number> key = keys[lane * kKeyStride<Number> + pack + part];
        ASSAY_UNROLL
        for (int i = 0; i < kQueries; ++i) {
          const Pack<Number> query = queries[(warp * kQueries + i) * kPacks + pack + part];
          ASSAY_UNROLL
          for (int e = 0; e < kPacked<Number>; ++e) {
            Number& sum = sums[i][part * kPacked<Number> + e];
            sum = add_product(query.of[e], key.of[e], sum);
          }
        }
      }
    }
    __syncthreads();
  }
  const int64_t key = first_key + lane;
  const auto slope = static_cast<Number>(a.keys.slope(head));
  ASSAY_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    const int64_t token = first_token + warp * kQueries + i;
    const int64_t position = a.first_of(token);
    Number score = sum_of_lanes(sums[i]) * a.keys.shape.scale;
    if (a.keys.shape.soft_cap > 0.0F) score = soft_capped(score, a.keys.shape.soft_cap);
    if (slope > 0) score = score + slope * static_cast<Number>(key - position);
    const int64_t at = key - a.keys.first_key(position);
    if (token >= a.n_tokens || key > position || at < 0) continue;
    a.scores[a.index(token, head) * a.max_keys + at] = score;
  }
}

// The scores [begin, end) become e^(score - greatest); gives the sum of the thread's lane of them.
template <class Number>
__device__ double weights_of_run(const Global<Number>& scores, int begin, int end,
                                 Number greatest) {
  constexpr int kAhead = 4;
  double lane = 0.0;
  int i = begin + lane_of_group();
  ASSAY_NO_UNROLL
  for (; i < end; i += kAhead * kLanes) {
    Number read[kAhead];
    ASSAY_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      const int at = i + k * kLanes;
      read[k] = at < end ? static_cast<Number>(scores[at]) : greatest;
    }
    ASSAY_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      if (i + k * kLanes >= end) break;
      const float weight = weight_of(read[k], greatest);
      scores[i + k * kLanes] = weight;
      lane = lane + weight;
    }
  }
  return lane;
}

// A warp has one query. Half a warp has a run of scores (lanes.h).
template <class Number>
__global__ void softmax_kernel(Queries<Number> a) {
  const int64_t query = int64_t{blockIdx.x} * kAttentionWarps + threadIdx.x / kWarp;
  const int64_t token = query / a.keys.shape.n_heads;
  if (token >= a.n_tokens) return;
  const int64_t head = query - token * a.keys.shape.n_heads;
  const int64_t position = a.first_of(token);
  const auto n = static_cast<int>(position + 1 - a.keys.first_key(position));
  const Global<Number> scores = a.scores.from(query * a.max_keys);
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const Number sink = a.sinks ? static_cast<float>(a.sinks[head]) : -INFINITY;
  Number greatest = sink;
  ASSAY_UNROLL_BY_4
  for (int i = lane; i < n; i += kWarp) {
    greatest = greater_of(greatest, static_cast<Number>(scores[i]));
  }
  greatest = greatest_in_warp(greatest);
  __syncwarp();  // what others read may be written
  double sum = 0.0;
  ASSAY_NO_UNROLL
  for (int first = 0; first < n; first += 2 * kSumRun) {
    const int begin = first + lane / kLanes * kSumRun;
    const int end = begin + kSumRun < n ? begin + kSumRun : n;
    const double run = sum_lanes(weights_of_run(scores, begin, end, greatest));
    sum = sum + __shfl_sync(0xFFFFFFFFU, run, 0);
    const double next = __shfl_sync(0xFFFFFFFFU, run, kLanes);
    if (first + kSumRun < n) sum = sum + next;
  }
  const auto of_sink = static_cast<double>(weight_of(sink, greatest));
  if (lane == 0) a.sums[query] = static_cast<Number>(sum + of_sink);
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
template <class Kv, class Number>
ASSAY_KERNEL(kAttentionThreads, 2, value_kernel, ASSAY_CONSTANT(Queries<Number>) a) {
  constexpr int kPacks = kQueries / kPacked<Number>;                   // of a warp's queries
  ASSAY_SHARED(Number, values, kTile * kTile);                         // [key, element]
  ASSAY_SHARED(Pack<Number>, weights, kTile * kWeightStride<Number>);  // [key, query]
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
  Number totals[kQueries] = {};
  Number runs[kQueries] = {};
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
    ASSAY_UNROLL
    for (int pack = 0; pack < kPacks; ++pack) {
      weights[lane * kWeightStride<Number> + warp * kPacks + pack] = pack_of<Number>(
          [&](int i) {
            const int key = begin + lane;
            return seen[i].has(key) ? static_cast<Number>(a.scores[seen[i].weights + key])
                                    : Number{};
          },
          pack * kPacked<Number>);
    }
    __syncthreads();
    const auto add_keys = [&](auto are_all_seen) {
      ASSAY_UNROLL_BY_4
      for (int key = 0; key < kTile; ++key) {
        const Number value = values[key * kTile + lane];
        Number own[kQueries];
        ASSAY_UNROLL
        for (int i = 0; i < kQueries; i += kPacked<Number>) {
          const Pack<Number> pack =
              weights[key * kWeightStride<Number> + warp * kPacks + i / kPacked<Number>];
          ASSAY_UNROLL
          for (int e = 0; e < kPacked<Number>; ++e) own[i + e] = pack.of[e];
        }
        ASSAY_UNROLL
        for (int i = 0; i < kQueries; ++i) {
          // What a query does not see may be no number.
          if (decltype(are_all_seen)::value || seen[i].has(begin + key)) {
            runs[i] = add_product(own[i], value, runs[i]);
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
        runs[i] = 0;
      }
    }
    __syncthreads();
  }
  if (element >= value_dim) return;
  ASSAY_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    if (own_token + i >= a.n_tokens) break;
    const int64_t query = a.index(own_token + i, head);
    a.out[query * value_dim + element] = static_cast<float>(totals[i] / a.sums[query]);
  }
}

template <class Kv, class Number>
void attend(Device& device, const Queries<Number>& queries) {
  const auto heads = static_cast<unsigned>(queries.keys.shape.n_heads);
  const unsigned query_tiles = blocks_for(queries.n_tokens, kTile);
  const unsigned key_tiles =
      blocks_for(queries.first_position + queries.n_tokens - queries.first_key, kTile);
  const unsigned parts = blocks_for(queries.value_dim, kTile);
  ASSAY_LAUNCH(device, (LaunchShape{{key_tiles, heads, query_tiles}, {kAttentionThreads, 1, 1}, 0}),
               (score_kernel<Kv, Number>), queries);
  const unsigned softmax_blocks = blocks_for(queries.n_tokens * heads, kAttentionWarps);
  ASSAY_LAUNCH(device, (LaunchShape{{softmax_blocks, 1, 1}, {kAttentionThreads, 1, 1}, 0}),
               (softmax_kernel<Number>), queries);
  ASSAY_LAUNCH(device, (LaunchShape{{heads * parts, query_tiles, 1}, {kAttentionThreads, 1, 1}, 0}),
               (value_kernel<Kv, Number>), queries);
}

template <class Number>
void attend_in(Device& device, const AttentionCall& call, Number* scratch) {
  const AttentionShape& shape = call.shape;
  const int64_t max_keys = attention_keys(shape, call.first_position, call.n_tokens);
  const Queries<Number> queries = {call.q,
                                   keys_of(call.kv, shape),
                                   call.first_position,
                                   call.n_tokens,
                                   shape.first_key(call.first_position),
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

}  // namespace

int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens) {
  const int64_t all = first_position + n_tokens;
  return shape.window > 0 && shape.window < all ? shape.window : all;
}

size_t attention_scratch(Math math, const AttentionShape& shape, int64_t first_position,
                         int64_t n_tokens) {
  const int64_t numbers =
      n_tokens * shape.n_heads * (attention_keys(shape, first_position, n_tokens) + 1);
  return static_cast<size_t>(numbers) * score_bytes(math);
}

void attention(Device& device, Math math, const AttentionCall& call, void* scratch) {
  if (math == Math::kExact) {
    attend_in(device, call, static_cast<double*>(scratch));
  } else {
    attend_in(device, call, static_cast<float*>(scratch));
  }
}

}  // namespace assay::ASSAY_DEVICE
