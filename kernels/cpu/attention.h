#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/norms.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/sums.h"
#include "kernels/cpu/weights.h"

// Attention of up to kTileQueries queries at once to the keys and values of one key-value head.
// What each query computes depends on its own position alone: a score is a dot product in the
// order of dot_rows, and values are summed key by key, in runs that end at multiples of kKeyRun.
namespace assay::ASSAY_ISA {

// Runs keep the error of long sums down, and the values of a run in the cache.
constexpr int64_t kKeyRun = 256;

// One query and what it has computed so far.
template <class Real>
struct Query {
  const float* q;
  float* out;
  int64_t first_key;
  int64_t end_key;
  Real* scores;  // of key k at [k - first_key]; room for a multiple of 16
  Real* run;     // [value_dim, rounded up to 16]: the sum over the current run of keys
  Real* total;   // [the same]: that over all earlier runs
  float sink;    // a score without a key; -infinity: none
  double slope;  // of ALiBi; 0: none
  Real weight_sum;
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

template <class Sums, class Kv, int64_t kQueries, int64_t kKeys>
ASSAY_ALWAYS_INLINE void score_tile(const Query<typename Sums::Real>* queries, const KvHead<Kv>& k,
                                    float scale, int64_t key) {
  using Real = typename Sums::Real;
  using Lanes = typename Sums::Lanes;
  k.template prefetch<kKeys>(key);
  Lanes sums[kQueries][kKeys];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) sums[i][j] = Sums::zero();
  }
  const auto accumulate = [&](auto read_key, auto read_query) {
    Lanes keys[kKeys];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) keys[j] = Sums::lanes(read_key(key + j));
#pragma GCC unroll 8
    for (int64_t i = 0; i < kQueries; ++i) {
      const Lanes q = Sums::lanes(read_query(queries[i].q));
#pragma GCC unroll 8
      for (int64_t j = 0; j < kKeys; ++j) sums[i][j] = Sums::add_product(q, keys[j], sums[i][j]);
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
    Real* scores = queries[i].scores + (key - queries[i].first_key);
    if constexpr (kKeys == 4 && !Sums::kInDouble) {
      store_sums(scores, sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    } else {
#pragma GCC unroll 8
      for (int64_t j = 0; j < kKeys; ++j) scores[j] = sum(sums[i][j]);
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < kKeys; ++j) scores[j] *= static_cast<Real>(scale);
  }
}

// The scores of kQueries queries for the keys [begin, end), which all of them see.
template <class Sums, class Kv, int64_t kQueries>
void score_keys(const Query<typename Sums::Real>* queries, const KvHead<Kv>& k, float scale,
                int64_t begin, int64_t end) {
  int64_t key = begin;
  for (; key + Sums::kKeys <= end; key += Sums::kKeys) {
    score_tile<Sums, Kv, kQueries, Sums::kKeys>(queries, k, scale, key);
  }
  for (; key < end; ++key) score_tile<Sums, Kv, kQueries, 1>(queries, k, scale, key);
}

// scores become e^(score - greatest score); their sum becomes weight_sum, to which the sink adds.
template <class Sums>
void softmax(Query<typename Sums::Real>& query, float soft_cap) {
  using Real = typename Sums::Real;
  using Lanes = typename Sums::Lanes;
  const int64_t n = query.end_key - query.first_key;
  const int64_t padded = round_up_to_16(n);
  Real* const scores = query.scores;
  for (int64_t i = n; i < padded; ++i) scores[i] = 0.0F;
  if (soft_cap > 0.0F) {
    const Lanes cap = splat(static_cast<Real>(soft_cap));
    for (int64_t i = 0; i < padded; i += 16) {
      const F32x16 squeezed = tanh(Sums::floats(div(load(scores + i), cap)));
      store(scores + i, mul(cap, Sums::lanes(squeezed)));
    }
  }
  if (query.slope != 0.0) {
    const auto slope = static_cast<Real>(query.slope);
    for (int64_t i = 0; i < n; ++i) scores[i] += slope * static_cast<Real>(i + 1 - n);
  }
  for (int64_t i = n; i < padded; ++i) scores[i] = -__builtin_inff();
  const Lanes sink = splat(static_cast<Real>(query.sink));
  Lanes greatest = sink;
  for (int64_t i = 0; i < padded; i += 16) greatest = max(greatest, load(scores + i));
  const Lanes shift = splat(max_lane(greatest));
  const auto weights_of = [&](const Lanes& score) { return exp(Sums::floats(sub(score, shift))); };
  for (int64_t i = 0; i < padded; i += 16) {
    store(scores + i, Sums::lanes(weights_of(load(scores + i))));
  }
  const auto read = [&](int64_t i, int64_t) {
    if constexpr (Sums::kInDouble) return load(scores + i);
    return to_double(Sums::floats(load(scores + i)));
  };
  const double total =
      sum_of(padded, read, [](const F64x16& lanes, const F64x16& v) { return add(lanes, v); });
  float of_sink[16];
  store(of_sink, weights_of(sink));
  query.weight_sum = static_cast<Real>(total + static_cast<double>(of_sink[0]));
}

// run += weight * value over the keys [begin, end), for elements [d, d + 16 * kVectors) of the
// head, or for those from d to the head's end if kPartial.
template <class Sums, class Kv, int64_t kQueries, int64_t kVectors, bool kPartial>
ASSAY_ALWAYS_INLINE void accumulate_vectors(const Query<typename Sums::Real>* queries,
                                            const KvHead<Kv>& v, int64_t begin, int64_t end,
                                            int64_t d) {
  using Lanes = typename Sums::Lanes;
  Lanes sums[kQueries][kVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) sums[i][j] = load(queries[i].run + d + 16 * j);
  }
  for (int64_t key = begin; key < end; ++key) {
    if (d == 0) v.template prefetch<1>(key);
    Lanes values[kVectors];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) {
      values[j] = Sums::lanes(kPartial ? v.read_partial(key, d) : v.read(key, d + 16 * j));
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kQueries; ++i) {
      const Lanes weight = splat(queries[i].scores[key - queries[i].first_key]);
#pragma GCC unroll 8
      for (int64_t j = 0; j < kVectors; ++j) {
        sums[i][j] = Sums::add_product(weight, values[j], sums[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) store(queries[i].run + d + 16 * j, sums[i][j]);
  }
}

template <class Sums, class Kv, int64_t kQueries>
void accumulate_values(const Query<typename Sums::Real>* queries, const KvHead<Kv>& v,
                       int64_t begin, int64_t end) {
  constexpr int64_t kVectors = Sums::kVectors;
  if (begin >= end) return;
  int64_t d = 0;
  for (; d + 16 * kVectors <= v.dim; d += 16 * kVectors) {
    accumulate_vectors<Sums, Kv, kQueries, kVectors, false>(queries, v, begin, end, d);
  }
  for (; d + 16 <= v.dim; d += 16) {
    accumulate_vectors<Sums, Kv, kQueries, 1, false>(queries, v, begin, end, d);
  }
  if (d < v.dim) accumulate_vectors<Sums, Kv, kQueries, 1, true>(queries, v, begin, end, d);
}

// visit(Count<n>, queries, begin, end), for 0 < n <= kMost.
template <int64_t kMost, class Real, class Visit>
ASSAY_ALWAYS_INLINE void visit_counted(const Query<Real>* queries, int64_t n, int64_t begin,
                                       int64_t end, Visit visit) {
  if constexpr (kMost > 1) {
    if (n < kMost) return visit_counted<kMost - 1>(queries, n, begin, end, visit);
  }
  visit(Count<kMost>(), queries, begin, end);
}

// Calls visit(Count<n>, queries, begin, end) so that each query meets its own keys of [begin, end)
// in ascending order: once for the keys that all queries have in common, and query by query for
// those before and after.
template <class Real, class Visit>
ASSAY_ALWAYS_INLINE void for_key_ranges(const Query<Real>* queries, int64_t n_queries,
                                        int64_t begin, int64_t end, Visit visit) {
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

// Bytes.
inline int64_t attention_scratch(const AttentionCall& a, bool exact) {
  const int64_t numbers = round_up_to_16(max_keys(a)) + 2 * round_up_to_16(a.shape.value_dim());
  return kTileQueries * numbers * static_cast<int64_t>(exact ? sizeof(double) : sizeof(float));
}

template <class Real>
Query<Real> make_query(const AttentionCall& a, int64_t kv_head, int64_t index, Real* scratch) {
  const int64_t heads = a.shape.n_heads / a.shape.n_kv_heads;
  const int64_t token = index / heads;
  const int64_t head = token * a.shape.n_heads + kv_head * heads + index % heads;
  const int64_t position = a.first_position + token;
  const int64_t width = round_up_to_16(a.shape.value_dim());
  Query<Real> query;
  query.q = a.q + head * a.shape.head_dim;
  query.out = a.out + head * a.shape.value_dim();
  query.first_key = a.shape.first_key(position);
  query.end_key = position + 1;
  query.scores = scratch;
  query.run = scratch + round_up_to_16(max_keys(a));
  query.total = query.run + width;
  const int64_t of_token = kv_head * heads + index % heads;
  query.sink = a.sinks == nullptr ? -__builtin_inff() : a.sinks[of_token];
  query.slope = a.shape.alibi.n_first > 0 ? a.shape.alibi.of_head(of_token) : 0.0;
  query.weight_sum = 0.0F;
  for (int64_t d = 0; d < width; ++d) query.run[d] = query.total[d] = 0.0F;
  return query;
}

template <class Sums, class Kv>
void attend_as(const AttentionCall& a, int64_t kv_head, int64_t first, int64_t last,
               void* scratch) {
  using Real = typename Sums::Real;
  const int64_t n = last - first;
  const auto head_of = [&](const void* vectors, int64_t dim) {
    return KvHead<Kv>{static_cast<const uint8_t*>(vectors) + kv_head * dim * Kv::kBytes,
                      a.shape.n_kv_heads * dim, dim};
  };
  const KvHead<Kv> k = head_of(a.kv.k, a.shape.head_dim);
  const KvHead<Kv> v = head_of(a.kv.v, a.shape.value_dim());
  const int64_t own_scratch = attention_scratch(a, Sums::kInDouble) / kTileQueries;

  Query<Real> queries[kTileQueries] = {};
  for (int64_t i = 0; i < n; ++i) {
    auto* own = static_cast<uint8_t*>(scratch) + i * own_scratch;
    queries[i] = make_query(a, kv_head, first + i, reinterpret_cast<Real*>(own));
  }
  const int64_t end_key = queries[n - 1].end_key;
  const auto score = [&]<int64_t kQueries>(Count<kQueries>, const Query<Real>* q, int64_t begin,
                                           int64_t end) {
    score_keys<Sums, Kv, kQueries>(q, k, a.shape.scale, begin, end);
  };
  const auto accumulate = [&]<int64_t kQueries>(Count<kQueries>, const Query<Real>* q,
                                                int64_t begin, int64_t end) {
    accumulate_values<Sums, Kv, kQueries>(q, v, begin, end);
  };
  for_key_ranges(queries, n, queries[0].first_key, end_key, score);
  for (int64_t i = 0; i < n; ++i) softmax<Sums>(queries[i], a.shape.soft_cap);

  for (int64_t run = queries[0].first_key / kKeyRun * kKeyRun; run < end_key; run += kKeyRun) {
    for_key_ranges(queries, n, run, smaller(run + kKeyRun, end_key), accumulate);
    for (int64_t i = 0; i < n; ++i) {
      const Query<Real>& q = queries[i];
      for (int64_t d = 0; d < v.dim; d += 16) {
        store(q.total + d, add(load(q.total + d), load(q.run + d)));
        store(q.run + d, Sums::zero());
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const Query<Real>& q = queries[i];
    const typename Sums::Lanes weight_sum = splat(q.weight_sum);
    for (int64_t d = 0; d < v.dim; d += 16) {
      const F32x16 mean = Sums::floats(div(load(q.total + d), weight_sum));
      if (d + 16 <= v.dim) {
        store(q.out + d, mean);
      } else {
        store_partial(q.out + d, v.dim - d, mean);
      }
    }
  }
}

inline void attend(const AttentionCall& a, bool exact, int64_t kv_head, int64_t first, int64_t last,
                   void* scratch) {
  const bool f32 = a.kv.type == KvType::kF32;
  const auto function = exact ? (f32 ? attend_as<DoubleSums, F32> : attend_as<DoubleSums, F16>)
                              : (f32 ? attend_as<FloatSums, F32> : attend_as<FloatSums, F16>);
  function(a, kv_head, first, last, scratch);
}

}  // namespace assay::ASSAY_ISA
