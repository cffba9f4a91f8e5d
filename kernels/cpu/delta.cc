#include "kernels/cpu/delta.h"

#include <algorithm>
#include <cmath>

#include "kernels/gates.h"

namespace assay::cpu {
namespace {

// What a head's query or key is multiplied by.
double inverse_length(const float* x, int64_t dim) {
  double squares = 0.0;
  for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(squares + 1e-6);
}

}  // namespace

void delta_head(const DeltaCall& call, int64_t head, double* scratch) {
  const DeltaShape& s = call.shape;
  const double root = std::sqrt(static_cast<double>(s.key_dim));
  float* const state = call.state + head * s.key_dim * s.value_dim;
  double* const step = scratch;
  double* const sum = scratch + s.value_dim;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* q = call.qkv + t * s.qkv_width() + head % s.n_key_heads * s.key_dim;
    const float* k = q + s.key_width();
    const float* v = call.qkv + t * s.qkv_width() + 2 * s.key_width() + head * s.value_dim;
    const int64_t gate = t * s.n_value_heads + head;
    const double decay = gates::exponential(
        call.a[head] * gates::softplus(static_cast<double>(call.alpha[gate]) + call.dt[head]));
    const double beta =
        call.sigmoid_beta ? gates::sigmoid(call.beta[gate]) : static_cast<double>(call.beta[gate]);
    const double of_q = (call.l2_norm ? inverse_length(q, s.key_dim) : 1.0) / root;
    const double of_k = call.l2_norm ? inverse_length(k, s.key_dim) : 1.0;
    if (call.first_position + t == 0) std::fill_n(state, s.key_dim * s.value_dim, 0.0F);
    std::fill_n(step, 2 * s.value_dim, 0.0);
    for (int64_t i = 0; i < s.key_dim; ++i) {
      const double key = k[i] * of_k;
      const float* row = state + i * s.value_dim;
      for (int64_t j = 0; j < s.value_dim; ++j) step[j] += row[j] * key;
    }
    for (int64_t j = 0; j < s.value_dim; ++j) step[j] = (v[j] - decay * step[j]) * beta;
    for (int64_t i = 0; i < s.key_dim; ++i) {
      const double key = k[i] * of_k;
      const double query = q[i] * of_q;
      float* row = state + i * s.value_dim;
      for (int64_t j = 0; j < s.value_dim; ++j) {
        const double next = decay * row[j] + key * step[j];
        row[j] = static_cast<float>(next);
        sum[j] += next * query;
      }
    }
    float* out = call.out + t * s.value_width() + head * s.value_dim;
    for (int64_t j = 0; j < s.value_dim; ++j) out[j] = static_cast<float>(sum[j]);
  }
}

}  // namespace assay::cpu
