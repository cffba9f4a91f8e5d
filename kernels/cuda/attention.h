#pragma once

#include <type_traits>

#include "kernels/cuda/exp.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/weights.h"
#include "kernels/kernels.h"

// What the kernels of attention have in common; the order of all sums is that of
// kernels/cpu/attention.h. `Number` is the type of scores and sums: double in exact math, else
// float. Weights, which are floats, stand where their scores stood.
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

  // As AttentionShape::first_key().
  __device__ int64_t first_key(int64_t position) const {
    if (shape.window <= 0) return 0;
    const int64_t first =
        shape.chunked ? position - position % shape.window : position - shape.window + 1;
    return first > 0 ? first : 0;
  }
  // As AlibiSlopes::of_head(); 0 where there is no bias.
  __device__ double slope(int64_t head) const {
    const bool is_first = head < shape.alibi.n_first;
    const int64_t power = is_first ? head + 1 : 2 * (head - shape.alibi.n_first) + 1;
    double slope = shape.alibi.n_first > 0 ? 1.0 : 0.0;
    ASSAY_NO_UNROLL
    for (int64_t i = 0; i < power && slope > 0.0; ++i) {
      slope = slope * (is_first ? shape.alibi.first : shape.alibi.further);
    }
    return slope;
  }
  // The head of keys and values that a query's head reads. A division, which loops are to be
  // spared.
  __device__ int64_t kv_head(int64_t head) const {
    return static_cast<int64_t>(
        static_cast<uint32_t>(head) /
        (static_cast<uint32_t>(shape.n_heads) / static_cast<uint32_t>(shape.n_kv_heads)));
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

// A score is computed by a few threads, each with kPart of the sixteen lanes (lanes.h): those of
// the adjacent elements that 16 bytes of a key hold.
template <class Kv>
constexpr int kPart = 16 / Kv::kBytes;
template <class Kv>
constexpr int kThreadsOfKey = kLanes / kPart<Kv>;

// What a thread has under way at once: so many keys, of each so many parts.
constexpr int kKeysAhead = 2;
constexpr int kPartsAhead = 4;

// The elements [d, d + kPart) of a key, of which there are `left`, as they are stored. kWhole: all
// are there, at a multiple of 16 bytes.
template <class Kv, bool kWhole>
__device__ uint4 part_of_key(const Global<const uint8_t>& bytes, int64_t element, int64_t left) {
  if constexpr (kWhole) return load_as<uint4>(bytes.range(element * Kv::kBytes, 16));
  uint32_t words[4] = {};
  ASSAY_UNROLL
  for (int e = 0; e < kPart<Kv>; ++e) {
    if (e >= left) continue;
    const uint32_t bits = Kv::bits(bytes.range((element + e) * Kv::kBytes, Kv::kBytes));
    words[e * Kv::kBytes / 4] |= bits << (e * Kv::kBytes % 4 * 8);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Those of the query.
template <class Kv, bool kWhole>
__device__ void part_of_query(const Global<const float>& q, int64_t d, int64_t left,
                              float (&part)[kPart<Kv>]) {
  if constexpr (kWhole) {
    ASSAY_UNROLL
    for (int e = 0; e < kPart<Kv>; e += 4) {
      const auto four = load_as<float4>(reinterpret_cast<const uint8_t*>(q.range(d + e, 4)));
      part[e] = four.x;
      part[e + 1] = four.y;
      part[e + 2] = four.z;
      part[e + 3] = four.w;
    }
  } else {
    ASSAY_UNROLL
    for (int e = 0; e < kPart<Kv>; ++e) part[e] = e < left ? q[d + e] : 0.0F;
  }
}

template <class Kv, bool kWhole, class Number>
__device__ void add_part(const uint4& part, const float (&query)[kPart<Kv>], int64_t left,
                         Number (&lanes)[kPart<Kv>]) {
  const uint32_t words[4] = {part.x, part.y, part.z, part.w};
  ASSAY_UNROLL
  for (int e = 0; e < kPart<Kv>; ++e) {
    if (!kWhole && e >= left) continue;
    const uint32_t bits = words[e * Kv::kBytes / 4] >> (e * Kv::kBytes % 4 * 8);
    lanes[e] = add_product(query[e], Kv::from_bits(bits), lanes[e]);
  }
}

// store(i, score) of the query at q for the keys `first` + i, i in [begin, end), of head `kv_head`.
// All threads of the block must call it.
template <class Kv, class Number, bool kWhole, class Store>
__device__ void score_keys(const Keys& keys, const Global<const float>& q, int64_t kv_head,
                           int64_t first, int64_t begin, int64_t end, const Store& store) {
  constexpr int kGroups = kAttentionThreads / kThreadsOfKey<Kv>;
  const int own = static_cast<int>(threadIdx.x) % kThreadsOfKey<Kv>;
  const int64_t head_dim = keys.shape.head_dim;
  for (int64_t round = begin; round < end; round += kGroups * kKeysAhead) {
    const int64_t i = round + threadIdx.x / kThreadsOfKey<Kv>;
    Number lanes[kKeysAhead][kPart<Kv>] = {};
    ASSAY_NO_UNROLL
    for (int64_t d = own * kPart<Kv>; d < head_dim; d += kPartsAhead * kLanes) {
      uint4 parts[kKeysAhead][kPartsAhead];
      ASSAY_UNROLL
      for (int k = 0; k < kKeysAhead; ++k) {
        if (i + k * kGroups >= end) continue;
        const int64_t key = keys.vector(first + i + k * kGroups, kv_head) + d;
        ASSAY_UNROLL
        for (int p = 0; p < kPartsAhead; ++p) {
          const int64_t left = head_dim - d - p * kLanes;
          if (left > 0) parts[k][p] = part_of_key<Kv, kWhole>(keys.k, key + p * kLanes, left);
        }
      }
      ASSAY_UNROLL
      for (int p = 0; p < kPartsAhead; ++p) {
        const int64_t left = head_dim - d - p * kLanes;
        if (left <= 0) continue;
        float query[kPart<Kv>];
        part_of_query<Kv, kWhole>(q, d + p * kLanes, left, query);
        ASSAY_UNROLL
        for (int k = 0; k < kKeysAhead; ++k) {
          if (i + k * kGroups < end) add_part<Kv, kWhole>(parts[k][p], query, left, lanes[k]);
        }
      }
    }
    ASSAY_UNROLL
    for (int k = 0; k < kKeysAhead; ++k) {
      const Number sum = sum_of_parts(lanes[k]);
      if (own == 0 && i + k * kGroups < end) store(i + k * kGroups, sum * keys.shape.scale);
    }
  }
}

// The greater of two; NaN is left out.
__device__ inline float greater_of(float a, float b) {
  return fmaxf(a, b);
}
__device__ inline double greater_of(double a, double b) {
  return fmax(a, b);
}

// The greatest of `value` over all threads of the warp, in each of them; NaN is left out.
template <class Number>
__device__ Number greatest_in_warp(Number value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = greater_of(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

// The greatest of `value` over all threads of the block, in each of them; NaN is left out. There
// must be a barrier before it is called again.
template <class Number>
__device__ Number greatest_in_block(Number value) {
  ASSAY_SHARED(Number, greatest, kAttentionWarps);
  value = greatest_in_warp(value);
  if (threadIdx.x % kWarp == 0) greatest[threadIdx.x / kWarp] = value;
  __syncthreads();
  for (int warp = 0; warp < kAttentionWarps; ++warp) {
    value = greater_of(value, static_cast<Number>(greatest[warp]));
  }
  return value;
}

// The greatest of n scores, in all threads of the block.
template <class Number, class Array>
__device__ Number greatest_of(const Array& scores, int64_t n) {
  Number greatest = -INFINITY;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    greatest = greater_of(greatest, static_cast<Number>(scores[i]));
  }
  return greatest_in_block(greatest);
}

template <class Number>
__device__ float weight_of(Number score, Number greatest) {
  return exp_of(static_cast<float>(score - greatest));
}

// scores[n] become e^(score - greatest), by all threads of the block.
template <class Number, class Array>
__device__ void weigh(const Array& scores, int64_t n, Number greatest) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    scores[i] = weight_of<Number>(scores[i], greatest);
  }
}

// scores[n] become e^(score - greatest score), of which `sink` is one: a score without a key,
// -infinity for none. Gives the greatest. Barriers stand at its beginning's reads and at its end.
template <class Number, class Array>
__device__ Number weigh_in_block(const Array& scores, int64_t n, Number sink = -INFINITY) {
  const Number greatest = greater_of(greatest_of<Number>(scores, n), sink);
  weigh(scores, n, greatest);
  __syncthreads();
  return greatest;
}

// The same; gives the sum of the weights, that of the sink included.
template <class Number, class Array>
__device__ Number softmax_in_block(const Array& scores, int64_t n, Number sink) {
  const Number greatest = weigh_in_block<Number>(scores, n, sink);
  const double sum =
      sum_in_block(n, [&](int i) -> double { return static_cast<Number>(scores[i]); });
  return static_cast<Number>(sum + static_cast<double>(weight_of(sink, greatest)));
}

// `sum`, and weights[i] * value of the key `begin` + i for i in [0, n), of element d of the head:
// one chain; what it reads comes kAhead keys ahead.
template <class Kv, class Number, class Array>
__device__ Number sum_of_run(const Keys& keys, const Array& weights, int64_t kv_head, int64_t begin,
                             int n, int64_t d, Number sum = {}) {
  constexpr int kAhead = 32;
  const auto stride = static_cast<int>(keys.shape.n_kv_heads * keys.shape.head_dim) * Kv::kBytes;
  Global<const uint8_t> v = keys.v.from((keys.vector(begin, kv_head) + d) * Kv::kBytes);
  const auto add = [&](int first, auto is_whole) {
    float values[kAhead];
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (!decltype(is_whole)::value && first + i >= n) continue;
      values[i] = Kv::value(v.range(int64_t{i} * stride, Kv::kBytes));
    }
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (!decltype(is_whole)::value && first + i >= n) continue;
      sum = add_product(weights[first + i], values[i], sum);
    }
    v = v.from(int64_t{kAhead} * stride);
  };
  int first = 0;
  ASSAY_NO_UNROLL
  for (; first + kAhead <= n; first += kAhead) add(first, std::true_type{});
  if (first < n) add(first, std::false_type{});
  return sum;
}

}  // namespace assay::ASSAY_DEVICE
