#pragma once

#include <cstdint>

#include "kernels/calls.h"
#include "kernels/cpu/norms.h"
#include "kernels/cpu/simd.h"
#include "kernels/gates.h"

namespace assay::ASSAY_ISA {

// What a head's query or key is multiplied by.
inline double inverse_length(const float* x, int64_t dim) {
  double squares = 0.0;
  for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(x[i]) * x[i];
  return 1.0 / __builtin_sqrt(squares + 1e-6);
}

// One token of one value head.
struct DeltaToken {
  double decay = 0.0;
  double beta = 0.0;
  const double* key = nullptr;    // [key_dim], normalised
  const double* query = nullptr;  // likewise
  const float* value = nullptr;   // [value_dim]
  float* out = nullptr;           // [value_dim]
};

// Columns [first, first + 16 kGroups) of the state, [key_dim, value_dim], of which the last group
// may have only `n_last` of 16. In registers over all keys, so that of memory the state alone is
// read, twice, and written.
template <int kGroups>
ASSAY_ALWAYS_INLINE void delta_columns(const DeltaToken& token, const DeltaShape& shape,
                                       int64_t first, int64_t n_last, float* state) {
  const auto count = [&](int group) { return group == kGroups - 1 ? n_last : 16; };
  const auto put = [&](float* out, int group, const F64x16& v) {
    if (count(group) == 16) return store(out, to_float(v));
    store_partial(out, n_last, to_float(v));
  };
  F64x16 step[kGroups];
  F64x16 sum[kGroups];
  for (int g = 0; g < kGroups; ++g) step[g] = sum[g] = splat(0.0);
  for (int64_t i = 0; i < shape.key_dim; ++i) {
    const float* row = state + i * shape.value_dim + first;
    const F64x16 key = splat(token.key[i]);
    for (int g = 0; g < kGroups; ++g) {
      step[g] = add(step[g], mul(read_as_double(row, 16 * g, count(g)), key));
    }
  }
  const F64x16 decay = splat(token.decay);
  for (int g = 0; g < kGroups; ++g) {
    const F64x16 value = read_as_double(token.value + first, 16 * g, count(g));
    step[g] = mul(sub(value, mul(decay, step[g])), splat(token.beta));
  }
  for (int64_t i = 0; i < shape.key_dim; ++i) {
    float* row = state + i * shape.value_dim + first;
    const F64x16 key = splat(token.key[i]);
    const F64x16 query = splat(token.query[i]);
    for (int g = 0; g < kGroups; ++g) {
      const F64x16 held = read_as_double(row, 16 * g, count(g));
      const F64x16 next = add(mul(decay, held), mul(key, step[g]));
      put(row + 16 * g, g, next);
      sum[g] = add(sum[g], mul(next, query));
    }
  }
  for (int g = 0; g < kGroups; ++g) put(token.out + first + 16 * g, g, sum[g]);
}

// One value head of all tokens, its state included. `scratch`: 2 key_dim elements.
inline void delta_head(const DeltaCall& call, int64_t head, double* scratch) {
  constexpr int kGroups = 2;
  const DeltaShape& s = call.shape;
  const double root = __builtin_sqrt(static_cast<double>(s.key_dim));
  float* const state = call.state + head * s.key_dim * s.value_dim;
  double* const key = scratch;
  double* const query = scratch + s.key_dim;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* q = call.qkv + t * s.qkv_width() + s.key_head(head) * s.key_dim;
    const float* k = q + s.key_width();
    const int64_t gate = t * s.n_value_heads + head;
    DeltaToken token;
    token.decay = gates::exponential(
        call.a[head] * gates::softplus(static_cast<double>(call.alpha[gate]) + call.dt[head]));
    token.beta =
        call.sigmoid_beta ? gates::sigmoid(call.beta[gate]) : static_cast<double>(call.beta[gate]);
    const double of_q = (call.l2_norm ? inverse_length(q, s.key_dim) : 1.0) / root;
    const double of_k = call.l2_norm ? inverse_length(k, s.key_dim) : 1.0;
    for (int64_t i = 0; i < s.key_dim; ++i) {
      key[i] = k[i] * of_k;
      query[i] = q[i] * of_q;
    }
    token.key = key;
    token.query = query;
    token.value = call.qkv + t * s.qkv_width() + 2 * s.key_width() + head * s.value_dim;
    token.out = call.out + t * s.value_width() + head * s.value_dim;
    if (call.first_position + t == 0) {
      for (int64_t i = 0; i < s.key_dim * s.value_dim; ++i) state[i] = 0.0F;
    }
    int64_t first = 0;
    for (; first + 16 * kGroups <= s.value_dim; first += 16 * kGroups) {
      delta_columns<kGroups>(token, s, first, 16, state);
    }
    for (; first < s.value_dim; first += 16) {
      const int64_t left = s.value_dim - first;
      delta_columns<1>(token, s, first, left < 16 ? left : 16, state);
    }
  }
}

}  // namespace assay::ASSAY_ISA
