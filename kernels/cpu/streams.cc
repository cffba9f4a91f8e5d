#include "kernels/cpu/streams.h"

#include <algorithm>
#include <cmath>

namespace assay::cpu {
namespace {

// In the order of kernels/cpu/norms.h: runs of 512 in 16 lanes, and then the runs.
double mean_square(const float* row, int64_t width) {
  constexpr int64_t kRun = 512;
  constexpr int64_t kLanes = 16;
  double total = 0.0;
  for (int64_t first = 0; first < width; first += kRun) {
    const int64_t last = std::min(width, first + kRun);
    double lanes[kLanes] = {};
    for (int64_t i = first; i < last; ++i) {
      const double value = row[i];
      lanes[(i - first) % kLanes] += value * value;
    }
    for (int64_t distance = kLanes / 2; distance > 0; distance /= 2) {
      for (int64_t lane = 0; lane < distance; ++lane) lanes[lane] += lanes[lane + distance];
    }
    total += lanes[0];
  }
  return total / static_cast<double>(width);
}

// What gives a row the magnitude whose mean square is `wanted`.
double scale_to(double wanted, const float* row, int64_t width) {
  return std::sqrt(wanted) /
         std::sqrt(std::max(mean_square(row, width), StreamsCall::kLeastMeanSquare));
}

// A token's rows.
struct Rows {
  const float* x;
  const float* y;
  const float* coefs;
  float* out;
};

void predict(const StreamsCall& call, const Rows& rows) {
  const int64_t n = call.n_streams;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t d = 0; d < call.width; ++d) {
      double sum = rows.x[i * call.width + d];
      for (int64_t j = 0; j < n; ++j) {
        sum += static_cast<double>(rows.coefs[i * n + j]) * rows.x[j * call.width + d];
      }
      rows.out[i * call.width + d] = static_cast<float>(sum);
    }
  }
}

void correct(const StreamsCall& call, const Rows& rows) {
  for (int64_t i = 0; i < call.n_streams; ++i) {
    const double factor = 1.0 + rows.coefs[i];
    for (int64_t d = 0; d < call.width; ++d) {
      const double innovation = static_cast<double>(rows.y[d]) - rows.x[d];
      rows.out[i * call.width + d] =
          static_cast<float>(rows.x[i * call.width + d] + innovation * factor);
    }
  }
}

void spread(const StreamsCall& call, const Rows& rows) {
  std::copy_n(rows.x, call.width, rows.out);
  for (int64_t i = call.width; i < call.n_streams * call.width; ++i) {
    rows.out[i] = rows.x[i] + rows.y[i % call.width];
  }
}

void join(const StreamsCall& call, const Rows& rows) {
  const double wanted = mean_square(rows.x, call.width);
  std::copy_n(rows.x, call.width, rows.out);
  for (int64_t i = 0; i + 1 < call.n_streams; ++i) {
    const float* other = rows.y + i * call.width;
    const double factor = scale_to(wanted, other, call.width);
    for (int64_t d = 0; d < call.width; ++d) {
      rows.out[(i + 1) * call.width + d] = static_cast<float>(other[d] * factor);
    }
  }
}

void merge(const StreamsCall& call, const Rows& rows) {
  const double wanted = mean_square(rows.x, call.width);
  double factors[StreamsCall::kMostStreams];
  for (int64_t i = 0; i + 1 < call.n_streams; ++i) {
    factors[i] = scale_to(wanted, rows.y + i * call.width, call.width);
  }
  for (int64_t d = 0; d < call.width; ++d) {
    double sum = rows.x[d];
    for (int64_t i = 0; i + 1 < call.n_streams; ++i) sum += rows.y[i * call.width + d] * factors[i];
    rows.out[d] = static_cast<float>(sum / static_cast<double>(call.n_streams));
  }
}

}  // namespace

void run_streams(const StreamsCall& call, int64_t token) {
  const int64_t n = call.n_streams;
  const int64_t of_y = call.scales() ? n - 1 : 1;
  const int64_t of_coefs = call.step == StreamStep::kPredict ? n * n : n;
  const Rows rows = {call.x + token * call.n_in() * call.width,
                     call.y == nullptr ? nullptr : call.y + token * of_y * call.width,
                     call.coefs == nullptr ? nullptr : call.coefs + token * of_coefs,
                     call.out + token * call.n_out() * call.width};
  switch (call.step) {
    case StreamStep::kFirst:
      for (int64_t d = 0; d < call.width; ++d) {
        rows.out[d] = call.weight == nullptr ? rows.x[d] : rows.x[d] * call.weight[d];
      }
      break;
    case StreamStep::kJoin:
      return join(call, rows);
    case StreamStep::kPredict:
      return predict(call, rows);
    case StreamStep::kCorrect:
      return correct(call, rows);
    case StreamStep::kSpread:
      return spread(call, rows);
    case StreamStep::kMerge:
      return merge(call, rows);
  }
}

}  // namespace assay::cpu
