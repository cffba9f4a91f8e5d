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
  double decay = 0.0;              // of all rows of the state, where `decays` is null
  const double* decays = nullptr;  // [key_dim], of each
  double beta = 0.0;
  const double* key = nullptr;    // [key_dim], normalised
  const double* query = nullptr;  // likewise
  const float* value = nullptr;   // [value_dim]
  float* out = nullptr;           // [value_dim]
};

// Columns [first, first + 16 kGroups) of a head's state, [key_dim, value_dim], of which the last
// group may have only `n_last` of 16.
template <int kGroups>
struct StateColumns {
  const DeltaShape& shape;
  int64_t first = 0;
  int64_t n_last = 16;
  float* state = nullptr;

  int64_t count(int group) const { return group == kGroups - 1 ? n_last : 16; }
  F64x16 read(const float* row, int group) const {
    return read_as_double(row + first, 16 * group, count(group));
  }
  void put(float* row, int group, const F64x16& v) const {
    float* out = row + first + 16 * group;
    if (count(group) == 16) return store(out, to_float(v));
    store_partial(out, n_last, to_float(v));
  }

  // state = decay state + key added^T, and sum += state^T query. In registers over all keys.
  ASSAY_ALWAYS_INLINE void advance(const DeltaToken& token, const F64x16 (&added)[kGroups],
                                   F64x16 (&sum)[kGroups]) const {
    F64x16 decay = splat(token.decay);
    for (int64_t i = 0; i < shape.key_dim; ++i) {
      float* row = state + i * shape.value_dim;
      if (token.decays != nullptr) decay = splat(token.decays[i]);
      const F64x16 key = splat(token.key[i]);
      const F64x16 query = splat(token.query[i]);
      for (int g = 0; g < kGroups; ++g) {
        const F64x16 next = add(mul(decay, read(row, g)), mul(key, added[g]));
        put(row, g, next);
        sum[g] = add(sum[g], mul(next, query));
      }
    }
    for (int g = 0; g < kGroups; ++g) put(token.out, g, sum[g]);
  }
};

// Of memory the state alone is read, twice, and written.
template <int kGroups>
ASSAY_ALWAYS_INLINE void delta_columns(const DeltaToken& token,
                                       const StateColumns<kGroups>& columns) {
  F64x16 step[kGroups];
  F64x16 sum[kGroups];
  for (int g = 0; g < kGroups; ++g) step[g] = sum[g] = splat(0.0);
  for (int64_t i = 0; i < columns.shape.key_dim; ++i) {
    const float* row = columns.state + i * columns.shape.value_dim;
    const F64x16 key = splat(token.key[i]);
    for (int g = 0; g < kGroups; ++g) step[g] = add(step[g], mul(columns.read(row, g), key));
  }
  const F64x16 decay = splat(token.decay);
  for (int g = 0; g < kGroups; ++g) {
    step[g] = mul(sub(columns.read(token.value, g), mul(decay, step[g])), splat(token.beta));
  }
  columns.advance(token, step, sum);
}

// `skip`: what a value is multiplied by and added to the result.
template <int kGroups>
ASSAY_ALWAYS_INLINE void ssm_columns(const DeltaToken& token, double skip,
                                     const StateColumns<kGroups>& columns) {
  F64x16 value[kGroups];
  F64x16 sum[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    value[g] = columns.read(token.value, g);
    sum[g] = mul(splat(skip), value[g]);
  }
  columns.advance(token, value, sum);
}

// Calls run(StateColumns) for all columns of a head's state.
ASSAY_ALWAYS_INLINE void for_columns(const DeltaShape& shape, float* state, const auto& run) {
  constexpr int kGroups = 2;
  int64_t first = 0;
  for (; first + 16 * kGroups <= shape.value_dim; first += 16 * kGroups) {
    run(StateColumns<kGroups>{shape, first, 16, state});
  }
  for (; first < shape.value_dim; first += 16) {
    const int64_t left = shape.value_dim - first;
    run(StateColumns<1>{shape, first, left < 16 ? left : 16, state});
  }
}

inline void clear_state(const DeltaShape& shape, float* state) {
  for (int64_t i = 0; i < shape.key_dim * shape.value_dim; ++i) state[i] = 0.0F;
}

// One value head of all tokens, its state included. `scratch`: 2 key_dim elements.
inline void delta_head(const DeltaCall& call, int64_t head, double* scratch) {
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
    if (call.first_position + t == 0) clear_state(s, state);
    for_columns(s, state, [&](const auto& columns) { delta_columns(token, columns); });
  }
}

// The same of a state space model, with 3 key_dim elements of scratch.
inline void ssm_head(const SsmCall& call, int64_t head, double* scratch) {
  const DeltaShape& s = call.shape;
  float* const state = call.state + head * s.key_dim * s.value_dim;
  double* const key = scratch;
  double* const query = scratch + s.key_dim;
  double* const decays = scratch + 2 * s.key_dim;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const SsmInputs in = call.in.from(t);
    const float* k = in.keys + s.key_head(head) * s.key_dim;
    const float* q = in.queries + s.key_head(head) * s.key_dim;
    const double dt = static_cast<double>(call.dt[t * s.n_value_heads + head]) + call.dt_bias[head];
    const double step = call.softplus ? gates::softplus(dt) : dt;
    for (int64_t i = 0; i < s.key_dim; ++i) {
      key[i] = step * k[i];
      query[i] = q[i];
    }
    DeltaToken token;
    if (s.own_decays) {
      const float* a = call.a + head * s.key_dim;
      for (int64_t i = 0; i < s.key_dim; ++i) decays[i] = gates::exponential(a[i] * step);
      token.decays = decays;
    } else {
      token.decay = gates::exponential(call.a[head] * step);
    }
    token.key = key;
    token.query = query;
    token.value = in.values + head * s.value_dim;
    token.out = call.out + t * s.value_width() + head * s.value_dim;
    if (call.first_position + t == 0) clear_state(s, state);
    const double skip = call.d[head];
    for_columns(s, state, [&](const auto& columns) { ssm_columns(token, skip, columns); });
  }
}

}  // namespace assay::ASSAY_ISA
