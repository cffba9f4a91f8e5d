#include "assay/log/sketch.h"

#include <cmath>
#include <limits>

#include "base/thread_pool.h"

// The sums, which both writers of logs share.
#define ASSAY_TAP_IMPLEMENTATION
#define ASSAY_TAP_STATIC
#define ASSAY_TAP_WITHOUT_LOG
#include "tap/assay_tap.h"

namespace assay {
namespace {

assay_tap_summary summary_of(std::span<const float> values) {
  assay_tap_summary sums;
  assay_tap_summarize(values.data(), values.size(), &sums);
  return sums;
}

std::vector<TopValue> top_of(std::span<const float> values, const assay_tap_summary& sums) {
  std::vector<TopValue> top;
  for (int i = 0; i < sums.count; ++i) {
    const size_t index = sums.top[i];
    top.push_back({static_cast<int64_t>(index), values[index]});
  }
  return top;
}

}  // namespace

uint64_t sketch_signs(uint64_t i) {
  return assay_tap_signs(i);
}

Sketch compute_sketch(std::span<const float> values) {
  static_assert(kSketchSize == ASSAY_TAP_SKETCH && kSummaryTop == ASSAY_TAP_TOP);
  Sketch sketch;
  assay_tap_sketch(values.data(), values.size(), sketch.data());
  return sketch;
}

Sketch compute_sketch(std::span<const float> values, ThreadPool& pool) {
  constexpr int64_t kAtOnce = 2;  // rows: of one, most of the work is what all rows share
  Sketch sketch;
  pool.parallel_for(ASSAY_TAP_ROWS, kAtOnce, [&](int64_t first, int64_t last) {
    for (; first < last; first += kAtOnce) {
      assay_tap_sketch_rows(values.data(), values.size(), static_cast<int>(first),
                            static_cast<int>(first + kAtOnce), sketch.data());
    }
  });
  return sketch;
}

namespace sketch_internal {

std::vector<Sketch> compute_by_each_path(std::span<const float> values) {
  std::vector<Sketch> sketches;
  const auto add = [&](auto plus) {
    Sketch& sketch = sketches.emplace_back();
    const double all = plus(values.data(), values.size(), 0, ASSAY_TAP_ROWS, sketch.data());
    for (double& sum : sketch) sum = 2 * sum - all;
  };
  add(assay_tap_plus_portable);
#if defined(ASSAY_TAP_AVX512)
  if (__builtin_cpu_supports("avx2")) add(assay_tap_plus_avx2);
  if (assay_tap_has_avx512()) add(assay_tap_plus_avx512);
#endif
  return sketches;
}

}  // namespace sketch_internal

double sketch_distance(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum / kSketchSize);
}

double sketch_norm(const Sketch& a) {
  return sketch_distance(a, Sketch{});
}

std::vector<TopValue> largest_values(std::span<const float> values) {
  return top_of(values, summary_of(values));
}

Summary empty_summary() {
  Summary summary;
  summary.min = summary.max = summary.mean = summary.l2 = std::numeric_limits<double>::quiet_NaN();
  summary.counts_nonfinite = false;
  return summary;
}

Summary counts_of(const Summary& summary) {
  Summary counts = empty_summary();
  counts.nonfinite = summary.nonfinite;
  counts.counts_nonfinite = summary.counts_nonfinite;
  counts.nan = summary.nan;
  return counts;
}

Summary summarize(std::span<const float> values) {
  const assay_tap_summary sums = summary_of(values);
  Summary summary;
  summary.top = top_of(values, sums);
  summary.nonfinite = sums.nonfinite;
  summary.nan = sums.nonfinite == 0 ? 0 : assay_tap_count_nan(values.data(), values.size());
  summary.l2 = std::sqrt(sums.squares[0]);
  if (summary.top.empty()) {
    summary.min = summary.max = summary.mean = std::numeric_limits<double>::quiet_NaN();
    return summary;
  }
  summary.min = static_cast<double>(sums.least[0]);
  summary.max = static_cast<double>(summary.top.front().value);
  summary.argmax = summary.top.front().index;
  summary.mean =
      sums.sums[0] / static_cast<double>(static_cast<int64_t>(values.size()) - summary.nonfinite);
  return summary;
}

}  // namespace assay
