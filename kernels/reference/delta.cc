#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

constexpr double kSmall = 1e-6;  // in the place of a length of 0

// One head's query or key.
std::vector<double> head(const float* x, int64_t dim, bool l2_norm) {
  std::vector<double> values(x, x + dim);
  double squares = kSmall;
  for (const double value : values) squares += value * value;
  for (double& value : values) value /= l2_norm ? std::sqrt(squares) : 1.0;
  return values;
}

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

void run(const DeltaCall& call) {
  const DeltaShape& s = call.shape;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* q_row = call.qkv + t * s.qkv_width();
    const float* k_row = q_row + s.key_width();
    const float* v_row = k_row + s.key_width();
    for (int64_t h = 0; h < s.n_value_heads; ++h) {
      const int64_t key_head = s.key_head(h) * s.key_dim;
      const std::vector<double> q = head(q_row + key_head, s.key_dim, call.l2_norm);
      const std::vector<double> k = head(k_row + key_head, s.key_dim, call.l2_norm);
      const int64_t gate = t * s.n_value_heads + h;
      const double alpha = static_cast<double>(call.alpha[gate]) + call.dt[h];
      const double decay = std::exp(call.a[h] * softplus(alpha));
      const double stated = call.beta[gate];
      const double beta = call.sigmoid_beta ? 1.0 / (1.0 + std::exp(-stated)) : stated;
      float* state = call.state + h * s.key_dim * s.value_dim;
      if (call.first_position + t == 0) std::fill_n(state, s.key_dim * s.value_dim, 0.0F);
      for (int64_t j = 0; j < s.value_dim; ++j) {
        double held = 0.0;
        for (int64_t i = 0; i < s.key_dim; ++i) {
          held += decay * state[i * s.value_dim + j] * k[static_cast<size_t>(i)];
        }
        const double step = (v_row[h * s.value_dim + j] - held) * beta;
        double sum = 0.0;
        for (int64_t i = 0; i < s.key_dim; ++i) {
          float& element = state[i * s.value_dim + j];
          const double next = decay * element + k[static_cast<size_t>(i)] * step;
          element = static_cast<float>(next);
          sum += next * q[static_cast<size_t>(i)];
        }
        call.out[t * s.value_width() + h * s.value_dim + j] =
            static_cast<float>(sum / std::sqrt(static_cast<double>(s.key_dim)));
      }
    }
  }
}

void run(const SsmCall& call) {
  const DeltaShape& s = call.shape;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const SsmInputs in = call.in.from(t);
    for (int64_t h = 0; h < s.n_value_heads; ++h) {
      const float* k = in.keys + s.key_head(h) * s.key_dim;
      const float* q = in.queries + s.key_head(h) * s.key_dim;
      const double dt = static_cast<double>(call.dt[t * s.n_value_heads + h]) + call.dt_bias[h];
      const double step = call.softplus ? softplus(dt) : dt;
      float* state = call.state + h * s.key_dim * s.value_dim;
      if (call.first_position + t == 0) std::fill_n(state, s.key_dim * s.value_dim, 0.0F);
      for (int64_t j = 0; j < s.value_dim; ++j) {
        const double value = in.values[h * s.value_dim + j];
        double sum = call.d[h] * value;
        for (int64_t i = 0; i < s.key_dim; ++i) {
          const double decay = std::exp(call.a[s.own_decays ? h * s.key_dim + i : h] * step);
          float& element = state[i * s.value_dim + j];
          const double next = decay * element + step * k[i] * value;
          element = static_cast<float>(next);
          sum += next * q[i];
        }
        call.out[t * s.value_width() + h * s.value_dim + j] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace assay::reference
