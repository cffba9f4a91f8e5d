#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace assay::reference {

void silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const double g = gate[i];
    out[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[i]);
  }
}

void gelu_tanh(const float* x, int64_t count, float* out) {
  const double scale = std::sqrt(2.0 / std::numbers::pi);
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    out[i] = static_cast<float>(0.5 * v * (1.0 + std::tanh(scale * (v + 0.044715 * v * v * v))));
  }
}

void add(const float* a, const float* b, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace assay::reference
