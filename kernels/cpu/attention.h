#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/norms.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weights.h"

// Attention of up to kTileQueries queries at once to the keys and values of one key-value head.
// What each query computes depends on its own position alone: a score is a dot product in the
// order of dot_rows, and values are summed key by key, in runs that end at multiples of kKeyRun.
namespace assay::ASSAY_ISA {

// Runs keep the error of long sums down, and the values of a run in the cache.
constexpr int64_t kKeyRun = 256;

// One query and what it has computed so far.
struct Query {
  const float* q;
  float* out;
  int64_t first_key;
  int64_t end_key;
  float* scores;  // of key k at [k - first_key]; room for a multiple of 16
  float* run;     // [value_dim, rounded up to 16]: the sum over the current run of keys
  float* total;   // [the same]: that over all earlier runs
  float sink;     // a score without a key; -infinity: none
  float weight_sum;
};

// Where one key-value head's vectors are; element (k, d) is at first + k * stride + d.
template <class Kv>
struct KvHead {
  const uint8_t* first;
  int64_t stride;
  int64_t dim;

  // Asks for keys that are read soon: heads stand side by side, so that one head's vectors look
  // random to the processor's own prefetcher. An address beyond the end does no harm.
  template <int64_t kKeys>
  ASSAY_ALWAYS_INLINE void prefetch(int64_t key) const {
    constexpr int64_t kAhead = 16;
    constexpr int64_t kLine = 64;
#pragma GCC unroll 4
    for (int64_t j = 0; j < kKeys; ++j) {
      const uint8_t* vector = first + (key + kAhead + j) * stride * Kv::kBytes;
      for (int64_t line = 0; line < dim * Kv::kBytes; line += kLine) {
        __builtin_prefetch(vector + line);
      }
    }
  }
  ASSAY_ALWAYS_INLINE F32x16 read(int64_t key, int64_t d) const {
    return Kv::read(first + (key * stride + d) * Kv::kBytes);
  }
  ASSAY_ALWAYS_INLINE F32x16 read_partial(int64_t key, int64_t d) const {
    return Kv::read_partial(first + (key * stride + d) * Kv::kBytes, dim - d);
  }
};

ASSAY_ALWAYS_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

ASSAY_ALWAYS_INLINE int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

ASSAY_ALWAYS_INLINE int64_t round_up_to_16(int64_t n) {
  return (n + 15) / 16 * 16;
}

template <class Kv, int64_t kQueries, int64_t kKeys>
ASSAY_ALWAYS_INLINE void score_tile(const Query* queries, const KvHead<Kv>& k, float scale,
                                    int64_t key) {
  k.template prefetch<kKeys>(key);
  F32x16 sums[kQueries][kKeys];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) sums[i][j] = zero();
  }
  const auto accumulate = [&](auto read_key, auto read_query) {
    F32x16 keys[kKeys];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) keys[j] = read_key(key + j);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kQueries; ++i) {
      const F32x16 q = read_query(queries[i].q);
#pragma GCC unroll 8
      for (int64_t j = 0; j < kKeys; ++j) sums[i][j] = fma(q, keys[j], sums[i][j]);
    }
  };
  int64_t d = 0;
  for (; d + 16 <= k.dim; d += 16) {
    accumulate([&](int64_t j) { return k.read(j, d); },
               [&](const float* q) { return load(q + d); });
  }
  if (d < k.dim) {
    accumulate([&](int64_t j) { return k.read_partial(j, d); },
               [&](const float* q) { return load_partial(q + d, k.dim - d); });
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
    float* scores = queries[i].scores + (key - queries[i].first_key);
    if constexpr (kKeys == 4) {
      store_sums(scores, sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    } else {
      static_assert(kKeys == 1);
      scores[0] = sum(sums[i][0]);
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) scores[j] *= scale;
  }
}

// The scores of kQueries queries for the keys [begin, end), which all of them see.
template <class Kv, int64_t kQueries>
void score_keys(const Query* queries, const KvHead<Kv>& k, float scale, int64_t begin,
                int64_t end) {
  int64_t key = begin;
  for (; key + 4 <= end; key += 4) score_tile<Kv, kQueries, 4>(queries, k, scale, key);
  for (; key < end; ++key) score_tile<Kv, kQueries, 1>(queries, k, scale, key);
}

// scores become e^(score - greatest score); their sum becomes weight_sum, to which the sink adds.
inline void softmax(Query& query, float soft_cap) {
  const int64_t n = query.end_key - query.first_key;
  const int64_t padded = round_up_to_16(n);
  if (soft_cap > 0.0F) {
    const F32x16 cap = splat(soft_cap);
    map(query.scores, n, query.scores, [&](F32x16 v) { return mul(cap, tanh(div(v, cap))); });
  }
  for (int64_t i = n; i < padded; ++i) query.scores[i] = -__builtin_inff();
  F32x16 greatest = splat(query.sink);
  for (int64_t i = 0; i < padded; i += 16) greatest = max(greatest, load(query.scores + i));
  const F32x16 shift = splat(max_lane(greatest));
  for (int64_t i = 0; i < padded; i += 16) {
    store(query.scores + i, exp(sub(load(query.scores + i), shift)));
  }
  const double total =
      sum_of(query.scores, n, [](F32x16 lanes, F32x16 v, int64_t) { return add(lanes, v); });
  float of_sink[16];
  store(of_sink, exp(sub(splat(query.sink), shift)));
  query.weight_sum = static_cast<float>(total + static_cast<double>(of_sink[0]));
}

// run += weight * value over the keys [begin, end), for elements [d, d + 16 * kVectors) of the
// head, or for those from d to the head's end if kPartial.
template <class Kv, int64_t kQueries, int64_t kVectors, bool kPartial>
ASSAY_ALWAYS_INLINE void accumulate_vectors(const Query* queries, const KvHead<Kv>& v,
                                            int64_t begin, int64_t end, int64_t d) {
  F32x16 sums[kQueries][kVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) sums[i][j] = load(queries[i].run + d + 16 * j);
  }
  for (int64_t key = begin; key < end; ++key) {
    if (d == 0) v.template prefetch<1>(key);
    F32x16 values[kVectors];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) {
      values[j] = kPartial ? v.read_partial(key, d) : v.read(key, d + 16 * j);
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kQueries; ++i) {
      const F32x16 weight = splat(queries[i].scores[key - queries[i].first_key]);
#pragma GCC unroll 8
      for (int64_t j = 0; j < kVectors; ++j) sums[i][j] = fma(weight, values[j], sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) store(queries[i].run + d + 16 * j, sums[i][j]);
  }
}

template <class Kv, int64_t kQueries>
void accumulate_values(const Query* queries, const KvHead<Kv>& v, int64_t begin, int64_t end) {
  if (begin >= end) return;
  int64_t d = 0;
  for (; d + 64 <= v.dim; d += 64) {
    accumulate_vectors<Kv, kQueries, 4, false>(queries, v, begin, end, d);
  }
  for (; d + 16 <= v.dim; d += 16) {
    accumulate_vectors<Kv, kQueries, 1, false>(queries, v, begin, end, d);
  }
  if (d < v.dim) accumulate_vectors<Kv, kQueries, 1, true>(queries, v, begin, end, d);
}

template <int64_t kValue>
struct Count {};

// visit(Count<n>, queries, begin, end), for 0 < n <= kMost.
template <int64_t kMost, class Visit>
ASSAY_ALWAYS_INLINE void visit_counted(const Query* queries, int64_t n, int64_t begin, int64_t end,
                                       Visit visit) {
  if constexpr (kMost > 1) {
    if (n < kMost) return visit_counted<kMost - 1>(queries, n, begin, end, visit);
  }
  visit(Count<kMost>(), queries, begin, end);
}

// Calls visit(Count<n>, queries, begin, end) so that each query meets its own keys of [begin, end)
// in ascending order: once for the keys that all queries have in common, and query by query for
// those before and after.
template <class Visit>
ASSAY_ALWAYS_INLINE void for_key_ranges(const Query* queries, int64_t n_queries, int64_t begin,
                                        int64_t end, Visit visit) {
  // Positions ascend from query to query.
  int64_t shared_begin = greater(begin, queries[n_queries - 1].first_key);
  const int64_t shared_end = smaller(end, queries[0].end_key);
  const bool shares = shared_begin < shared_end;
  if (!shares) shared_begin = end;
  for (int64_t i = 0; i < n_queries; ++i) {
    visit(Count<1>(), queries + i, greater(begin, queries[i].first_key),
          smaller(shared_begin, queries[i].end_key));
  }
  if (!shares) return;
  visit_counted<kTileQueries>(queries, n_queries, shared_begin, shared_end, visit);
  for (int64_t i = 0; i < n_queries; ++i) {
    visit(Count<1>(), queries + i, shared_end, smaller(end, queries[i].end_key));
  }
}

inline int64_t max_keys(const AttentionCall& a) {
  const int64_t all = a.first_position + a.n_tokens;
  return a.shape.window > 0 ? smaller(all, a.shape.window) : all;
}

inline int64_t attention_scratch(const AttentionCall& a) {
  return kTileQueries * (round_up_to_16(max_keys(a)) + 2 * round_up_to_16(a.shape.value_dim()));
}

inline Query make_query(const AttentionCall& a, int64_t kv_head, int64_t index, float* scratch) {
  const int64_t heads = a.shape.n_heads / a.shape.n_kv_heads;
  const int64_t token = index / heads;
  const int64_t head = token * a.shape.n_heads + kv_head * heads + index % heads;
  const int64_t position = a.first_position + token;
  const int64_t width = round_up_to_16(a.shape.value_dim());
  Query query;
  query.q = a.q + head * a.shape.head_dim;
  query.out = a.out + head * a.shape.value_dim();
  query.first_key = a.shape.window > 0 ? greater(0, position - a.shape.window + 1) : 0;
  query.end_key = position + 1;
  query.scores = scratch;
  query.run = scratch + round_up_to_16(max_keys(a));
  query.total = query.run + width;
  query.sink = a.sinks == nullptr ? -__builtin_inff() : a.sinks[kv_head * heads + index % heads];
  query.weight_sum = 0.0F;
  for (int64_t d = 0; d < width; ++d) query.run[d] = query.total[d] = 0.0F;
  return query;
}

template <class Kv>
void attend_as(const AttentionCall& a, int64_t kv_head, int64_t first, int64_t last,
               float* scratch) {
  const int64_t n = last - first;
  const auto head_of = [&](const void* vectors, int64_t dim) {
    return KvHead<Kv>{static_cast<const uint8_t*>(vectors) + kv_head * dim * Kv::kBytes,
                      a.shape.n_kv_heads * dim, dim};
  };
  const KvHead<Kv> k = head_of(a.kv.k, a.shape.head_dim);
  const KvHead<Kv> v = head_of(a.kv.v, a.shape.value_dim());

  Query queries[kTileQueries] = {};
  for (int64_t i = 0; i < n; ++i) {
    queries[i] =
        make_query(a, kv_head, first + i, scratch + i * (attention_scratch(a) / kTileQueries));
  }
  const int64_t end_key = queries[n - 1].end_key;
  const auto score = [&]<int64_t kQueries>(Count<kQueries>, const Query* q, int64_t begin,
                                           int64_t end) {
    score_keys<Kv, kQueries>(q, k, a.shape.scale, begin, end);
  };
  const auto accumulate = [&]<int64_t kQueries>(Count<kQueries>, const Query* q, int64_t begin,
                                                int64_t end) {
    accumulate_values<Kv, kQueries>(q, v, begin, end);
  };
  for_key_ranges(queries, n, queries[0].first_key, end_key, score);
  for (int64_t i = 0; i < n; ++i) softmax(queries[i], a.shape.soft_cap);

  for (int64_t run = queries[0].first_key / kKeyRun * kKeyRun; run < end_key; run += kKeyRun) {
    for_key_ranges(queries, n, run, smaller(run + kKeyRun, end_key), accumulate);
    for (int64_t i = 0; i < n; ++i) {
      add(queries[i].total, queries[i].run, v.dim, queries[i].total);
      for (int64_t d = 0; d < v.dim; ++d) queries[i].run[d] = 0.0F;
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const F32x16 weight_sum = splat(queries[i].weight_sum);
    map(queries[i].total, v.dim, queries[i].out,
        [&](F32x16 total) { return div(total, weight_sum); });
  }
}

inline void attend(const AttentionCall& a, int64_t kv_head, int64_t first, int64_t last,
                   float* scratch) {
  if (a.kv.type == KvType::kF32) {
    attend_as<F32>(a, kv_head, first, last, scratch);
  } else {
    attend_as<F16>(a, kv_head, first, last, scratch);
  }
}

}  // namespace assay::ASSAY_ISA
