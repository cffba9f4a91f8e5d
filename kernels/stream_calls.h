#pragma once

#include <cstdint>

#include "kernels/calls.h"
#include "model/op.h"

// The arguments of what networks of several residual streams have of their own, as calls.h has
// those of all others.
namespace assay {

// out[t, i] = what x[t, i] has above mean + factor * deviation, of row t, and 0 where it has
// nothing above that. The deviation is that of the row itself, the root of the mean square of what
// is left of the mean; in double, rounded once (Gemma 3n).
struct CutoffCall {
  const float* x = nullptr;
  float factor = 0.0F;
  int64_t n_tokens = 0;
  int64_t width = 0;
  float* out = nullptr;
  OpSite site = {};
};

// One StreamStep of several residual streams, s of x[n_tokens, n_streams, width], in double and
// rounded once:
// kFirst    out[t] = s_0 * weight; `weight` may be null
// kJoin     out[t, 0] = x[t], of [n_tokens, width]; out[t, i + 1] = y[t, i] |x[t]| / |y[t, i]|
// kPredict  out[t, i] = s_i + sum_j coefs[t, i, j] s_j
// kCorrect  out[t, i] = s_i + (y[t] - s_0) (1 + coefs[t, i])
// kSpread   out[t, 0] = s_0, out[t, i] = s_i + y[t]
// kMerge    out[t] = (s_0 + sum_i y[t, i] |s_0| / |y[t, i]|) / n_streams
// |v| is the root of the mean square; where it is divided by, at least that of kLeastMeanSquare.
struct StreamsCall {
  StreamStep step = StreamStep::kFirst;
  const float* x = nullptr;
  const float* y = nullptr;  // [n_tokens, width], or of kJoin and kMerge [n_tokens, n - 1, width]
  const float* coefs = nullptr;
  const float* weight = nullptr;  // [width]
  int64_t n_tokens = 0;
  int64_t n_streams = 0;
  int64_t width = 0;
  float* out = nullptr;
  OpSite site = {};

  static constexpr double kLeastMeanSquare = 1e-5;
  static constexpr int64_t kMostStreams = 16;
  // The streams of a row of the result, and of a row of x.
  int64_t n_out() const {
    return step == StreamStep::kFirst || step == StreamStep::kMerge ? 1 : n_streams;
  }
  int64_t n_in() const { return step == StreamStep::kJoin ? 1 : n_streams; }
  bool scales() const { return step == StreamStep::kJoin || step == StreamStep::kMerge; }
};

}  // namespace assay
