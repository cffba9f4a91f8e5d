#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace assay::reference {
namespace {

double mean_square(const float* row, int64_t width) {
  double squares = 0.0;
  for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(row[i]) * row[i];
  return squares / static_cast<double>(width);
}

// What gives `row` the magnitude of `wanted`.
double scale_to(const float* wanted, const float* row, int64_t width) {
  return std::sqrt(mean_square(wanted, width)) /
         std::sqrt(std::max(mean_square(row, width), StreamsCall::kLeastMeanSquare));
}

// Element `d` of stream `i` of a row's result.
double element(const StreamsCall& call, int64_t t, int64_t i, int64_t d) {
  const int64_t n = call.n_streams;
  const float* x = call.x + t * call.n_in() * call.width;
  const auto stream = [&](int64_t j) { return static_cast<double>(x[j * call.width + d]); };
  const auto scaled = [&](int64_t j) {
    const float* other = call.y + (t * (n - 1) + j) * call.width;
    return other[d] * scale_to(x, other, call.width);
  };
  switch (call.step) {
    case StreamStep::kFirst:
      return stream(0) * (call.weight == nullptr ? 1.0 : call.weight[d]);
    case StreamStep::kJoin:
      return i == 0 ? stream(0) : scaled(i - 1);
    case StreamStep::kPredict: {
      double sum = stream(i);
      for (int64_t j = 0; j < n; ++j) sum += call.coefs[(t * n + i) * n + j] * stream(j);
      return sum;
    }
    case StreamStep::kCorrect:
      return stream(i) + (call.y[t * call.width + d] - stream(0)) * (1.0 + call.coefs[t * n + i]);
    case StreamStep::kSpread:
      return i == 0 ? stream(0) : stream(i) + call.y[t * call.width + d];
    case StreamStep::kMerge:
      break;
  }
  double sum = stream(0);
  for (int64_t j = 0; j < n - 1; ++j) sum += scaled(j);
  return sum / static_cast<double>(n);
}

}  // namespace

void run(const CutoffCall& call) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* x = call.x + t * call.width;
    const auto width = static_cast<double>(call.width);
    double sum = 0.0;
    for (int64_t i = 0; i < call.width; ++i) sum += x[i];
    const double mean = sum / width;
    double squares = 0.0;
    for (int64_t i = 0; i < call.width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double cutoff = mean + call.factor * std::sqrt(squares / width);
    // Not a number stays what it is.
    for (int64_t i = 0; i < call.width; ++i) {
      const double above = x[i] - cutoff;
      call.out[t * call.width + i] = static_cast<float>(above < 0.0 ? 0.0 : above);
    }
  }
}

void run(const StreamsCall& call) {
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    for (int64_t i = 0; i < call.n_out(); ++i) {
      for (int64_t d = 0; d < call.width; ++d) {
        *out++ = static_cast<float>(element(call, t, i, d));
      }
    }
  }
}

}  // namespace assay::reference
