#include <cmath>

#include "kernels/reference/reference.h"

namespace assay::reference {

void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
              float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    double squares = 0.0;
    for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(x[i] * scale * weight[i]);
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_tokens,
                int64_t width, float* out) {
  for (int64_t t = 0; t < n_tokens; ++t, x += width, out += width) {
    double sum = 0.0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(width);
    double squares = 0.0;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) {
      const double shift = bias != nullptr ? bias[i] : 0.0;
      out[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + shift);
    }
  }
}

}  // namespace assay::reference
