#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

constexpr double kSwigluLimit = 7.0;

// NaN stays.
double clamped(double x) {
  return x > kSwigluLimit ? kSwigluLimit : x < -kSwigluLimit ? -kSwigluLimit : x;
}

double xielu(const Xielu& of, double x) {
  if (x > 0.0) return x * (of.alpha_p * x + of.beta);
  const double least = x > of.eps ? of.eps : x;  // NaN stays
  return of.alpha_n * (std::expm1(least) - x) + of.beta * x;
}

double apply(const ActivateCall& call, double x) {
  switch (call.kind) {
    case ActivationKind::kSilu:
      return silu(x);
    case ActivationKind::kGeluTanh:
      return gelu_tanh(x);
    case ActivationKind::kGelu:
      return gelu(x);
    case ActivationKind::kRelu:
      return x < 0.0 ? 0.0 : x;
    case ActivationKind::kReluSquared:
      return x < 0.0 ? 0.0 : x * x;
    case ActivationKind::kClampedSwiglu: {
      const double gate = x > kSwigluLimit ? kSwigluLimit : x;
      return gate / (1.0 + std::exp(-1.702 * gate));
    }
    case ActivationKind::kXielu:
      return xielu(call.xielu, x);
    case ActivationKind::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kClip:  // NaN stays
      return x > call.cap ? call.cap : x < -call.cap ? -call.cap : x;
    case ActivationKind::kSoftCap:
      break;
  }
  return call.cap * std::tanh(x / call.cap);
}

}  // namespace

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

// 0.5 x (1 + tanh(y)) in a form that keeps its digits where tanh(y) is nearly -1, and that takes an
// exponential alone.
double gelu_tanh(double x) {
  static const double scale = std::sqrt(2.0 / std::numbers::pi);
  return x / (1.0 + std::exp(-2.0 * scale * (x + 0.044715 * x * x * x)));
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

void run(const ActivateCall& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    double up = call.up == nullptr ? 1.0 : static_cast<double>(call.up[i]);
    if (call.kind == ActivationKind::kClampedSwiglu && call.up != nullptr) up = clamped(up) + 1.0;
    call.out[i] = static_cast<float>(apply(call, call.x[i]) * up);
  }
}

void run(const AddCall& call) {
  for (int64_t i = 0; i < call.count; ++i) {
    const float scaled = call.scale * call.b[i];
    call.out[i] = call.a == nullptr ? scaled : call.a[i] + scaled;
  }
}

void run(const SpreadCall& call) {
  for (int64_t i = 0; i < call.n_tokens * call.n_used * call.width; ++i) {
    const int64_t row = i / call.width;
    const double x = call.x[row / call.n_used * call.width + i % call.width];
    call.out[i] = static_cast<float>(static_cast<double>(call.weights[row]) * x);
  }
}

void run(const MixCall& call) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    for (int64_t i = 0; i < call.width; ++i) {
      double sum = 0.0;
      for (int64_t j = 0; j < call.n_used; ++j) {
        const int64_t row = t * call.n_used + j;
        const double weight = call.weights == nullptr ? 1.0 : call.weights[row];
        sum += weight * call.x[row * call.width + i];
      }
      call.out[t * call.width + i] = static_cast<float>(sum);
    }
  }
}

}  // namespace assay::reference
