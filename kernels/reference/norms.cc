#include <cmath>

#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

void rms_norm(const NormCall& call, const float* x, const float* weight, float* out) {
  double squares = 0.0;
  for (int64_t i = 0; i < call.width; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(call.width) + call.eps);
  for (int64_t i = 0; i < call.width; ++i) {
    out[i] = static_cast<float>(x[i] * scale * weight[i]);
  }
}

void layer_norm(const NormCall& call, const float* x, const float* weight, float* out) {
  const auto width = static_cast<double>(call.width);
  double sum = 0.0;
  for (int64_t i = 0; i < call.width; ++i) sum += x[i];
  const double mean = sum / width;
  double squares = 0.0;
  for (int64_t i = 0; i < call.width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1.0 / std::sqrt(squares / width + call.eps);
  for (int64_t i = 0; i < call.width; ++i) {
    const double shift = call.bias != nullptr ? call.bias[i] : 0.0;
    out[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + shift);
  }
}

}  // namespace

void run(const NormCall& call) {
  const auto row = call.kind == NormKind::kRms ? rms_norm : layer_norm;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* weight = call.weight + t % call.n_weights * call.width;
    row(call, call.x + t * call.x_stride(), weight, call.out + t * call.width);
  }
}

}  // namespace assay::reference
