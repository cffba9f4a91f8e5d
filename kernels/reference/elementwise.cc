#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace assay::reference {

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

double gelu_tanh(double x) {
  const double scale = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1.0 + std::tanh(scale * (x + 0.044715 * x * x * x)));
}

void run(const ActivateCall& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    const double x = call.x[i];
    const bool gated = call.kind == ActivationKind::kSiluGated;
    call.out[i] = static_cast<float>(gated ? silu(x) * call.up[i] : gelu_tanh(x));
  }
}

void run(const AddCall& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    const float scaled = call.scale * call.b[i];
    call.out[i] = call.a == nullptr ? scaled : call.a[i] + scaled;
  }
}

}  // namespace assay::reference
