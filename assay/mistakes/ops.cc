#include "assay/mistakes/ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "kernels/reference/reference.h"

namespace assay::mistakes {
namespace {

double apply(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return reference::silu(x);
    case Activation::kGeluTanh:
      return reference::gelu_tanh(x);
    case Activation::kGeluErf:
      return reference::gelu(x);
    case Activation::kGeluFast:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return x < 0.0 ? 0.0 : x * x;
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kClampedSwiglu:
    case Activation::kXielu:
    case Activation::kIdentity:
      break;
  }
  return x;
}

// What the kernels compute it as; nothing if they do not.
std::optional<ActivationKind> kernel_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return ActivationKind::kSilu;
    case Activation::kGeluTanh:
      return ActivationKind::kGeluTanh;
    case Activation::kGeluErf:
      return ActivationKind::kGelu;
    case Activation::kRelu:
      return ActivationKind::kRelu;
    case Activation::kReluSquared:
      return ActivationKind::kReluSquared;
    case Activation::kClampedSwiglu:
      return ActivationKind::kClampedSwiglu;
    case Activation::kXielu:
      return ActivationKind::kXielu;
    case Activation::kSigmoid:
      return ActivationKind::kSigmoid;
    case Activation::kTanh:
      return ActivationKind::kTanh;
    default:
      return std::nullopt;
  }
}

}  // namespace

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "GELU (tanh)";
    case Activation::kGeluErf:
      return "GELU (erf)";
    case Activation::kGeluFast:
      return "GELU (sigmoid)";
    case Activation::kRelu:
      return "ReLU";
    case Activation::kReluSquared:
      return "the square of ReLU";
    case Activation::kClampedSwiglu:
      return "clamped SwiGLU";
    case Activation::kXielu:
      return "xIELU";
    case Activation::kSigmoid:
      return "a sigmoid";
    case Activation::kTanh:
      return "tanh";
    case Activation::kIdentity:
      break;
  }
  return "no activation";
}

Activation activation_of(ActivationKind kind) {
  for (const Activation activation : kActivations) {
    if (kernel_of(activation) == kind) return activation;
  }
  return Activation::kIdentity;  // a soft cap is no activation
}

std::vector<double> rope_frequencies(double base, size_t pairs) {
  std::vector<double> frequencies(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    frequencies[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  return frequencies;
}

std::optional<double> rope_base(const std::vector<double>& frequencies) {
  constexpr double kNear = 1e-3;
  if (frequencies.size() < 2 || !(frequencies[1] > 0) || !(std::abs(frequencies[0] - 1) <= kNear)) {
    return std::nullopt;
  }
  const double pairs = static_cast<double>(frequencies.size());
  const double log_base = -std::log(frequencies[1]) * pairs;
  for (size_t i = 2; i < frequencies.size(); ++i) {
    const double expected = -log_base * static_cast<double>(i) / pairs;
    if (!(std::abs(std::log(frequencies[i]) - expected) <= kNear * std::abs(expected))) {
      return std::nullopt;
    }
  }
  return std::exp(log_base);
}

std::vector<float> rope_table(const RopeSettings& settings, const std::vector<double>& positions) {
  std::vector<float> table;
  table.reserve(positions.size() * settings.frequencies.size() * 2);
  for (const double position : positions) {
    for (const double frequency : settings.frequencies) {
      double angle = (settings.backwards ? -position : position) * frequency;
      if (settings.round_angle != nullptr) angle = settings.round_angle(static_cast<float>(angle));
      float cos = static_cast<float>(std::cos(angle) * settings.factor);
      float sin = static_cast<float>(std::sin(angle) * settings.factor);
      if (settings.sine_for_cosine) std::swap(cos, sin);
      table.push_back(settings.round != nullptr ? settings.round(cos) : cos);
      table.push_back(settings.round != nullptr ? settings.round(sin) : sin);
    }
  }
  return table;
}

RopeCall rope_call(const Matrix& x, const RopeSettings& settings, const std::vector<float>& table,
                   Matrix& out) {
  return {.x = x.values.data(),
          .cos_sin = table.data(),
          .pairing = settings.pairing,
          .n_tokens = x.rows,
          .n_heads = x.columns / settings.head_dim,
          .head_dim = settings.head_dim,
          .rotary_dim = 2 * std::ssize(settings.frequencies),
          .out = out.values.data(),
          .first_turned = settings.first_turned};
}

Matrix rope(const Matrix& x, const RopeSettings& settings, const std::vector<double>& positions) {
  Matrix out(x.rows, x.columns);
  const std::vector<float> table = rope_table(settings, positions);
  reference::run(rope_call(x, settings, table, out));
  return out;
}

Matrix norm(const Matrix& x, NormCall call) {
  Matrix out(x.rows, x.columns);
  const std::vector<float> ones(static_cast<size_t>(x.columns), 1.0F);
  if (call.weight == nullptr) call.weight = ones.data();
  call.x = x.values.data();
  if (call.width == 0) call.width = x.columns;
  call.n_tokens = x.rows * x.columns / call.width;
  call.out = out.values.data();
  reference::run(call);
  return out;
}

void activate(ActivateCall call, Activation activation, Kernels& kernels) {
  const bool gated = call.up != nullptr;
  if (const auto kind = kernel_of(activation)) {
    call.kind = *kind;
    return kernels.run(call);
  }
  for (int64_t i = 0; i < call.count; ++i) {
    const double value = apply(activation, call.x[i]);
    call.out[i] = static_cast<float>(gated ? value * call.up[i] : value);
  }
}

ActivateCall activate_call(const Matrix* gate, const Matrix& up, Matrix& out) {
  ActivateCall call{.x = up.values.data(), .count = up.rows * up.columns, .out = out.values.data()};
  if (gate != nullptr) {
    call.x = gate->values.data();
    call.up = up.values.data();
  }
  return call;
}

float round_fp8(float x, int mantissa_bits, int least_exponent, float largest) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), least_exponent);
  const float unit = std::ldexp(1.0F, exponent - mantissa_bits);
  return std::clamp(std::nearbyint(x / unit) * unit, -largest, largest);
}

int64_t first_row(const WeightMatrix& all, const WeightMatrix& part) {
  const auto bytes =
      static_cast<const std::byte*>(part.data) - static_cast<const std::byte*>(all.data);
  return bytes / static_cast<std::ptrdiff_t>(row_bytes(all.type, all.columns));
}

Matrix map(const Matrix& x, const std::function<float(float)>& f) {
  Matrix out = x;
  for (float& value : out.values) value = f(value);
  return out;
}

}  // namespace assay::mistakes
