#include "assay/log/sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace assay {
namespace {

bool is_finite(float value) {
  return std::abs(value) <= std::numeric_limits<float>::max();
}

// plus[k]: sum of the elements whose bit k is set; all: sum of all elements.
Sketch finish(const std::array<double, kSketchSize>& plus, double all) {
  Sketch sketch;
  for (size_t k = 0; k < sketch.size(); ++k) sketch[k] = 2 * plus[k] - all;
  return sketch;
}

// For each four bits four words, all ones where the bit is set: what compilers turn into loads of
// whole vectors, where a test of each bit would be a branch or a shift a lane.
constexpr std::array<std::array<uint64_t, 4>, 16> nibble_masks() {
  std::array<std::array<uint64_t, 4>, 16> masks{};
  for (size_t bits = 0; bits < 16; ++bits) {
    for (size_t j = 0; j < 4; ++j) masks[bits][j] = ((bits >> j) & 1) != 0 ? ~uint64_t{0} : 0;
  }
  return masks;
}

#if defined(__x86_64__)
// Eight vectors of eight sums; each element is added to those whose bit is set.
__attribute__((target("avx512f"))) Sketch compute_avx512(std::span<const float> values) {
  constexpr size_t kVectors = 8;
  __m512d sums[kVectors];
  for (__m512d& sum : sums) sum = _mm512_setzero_pd();
  double all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = is_finite(values[i]) ? static_cast<double>(values[i]) : 0.0;
    const uint64_t signs = sketch_signs(i);
    const __m512d x = _mm512_set1_pd(value);
    all += value;
#pragma GCC unroll 8
    for (size_t j = 0; j < kVectors; ++j) {
      sums[j] = _mm512_mask_add_pd(sums[j], static_cast<__mmask8>(signs >> (8 * j)), sums[j], x);
    }
  }
  std::array<double, kSketchSize> plus;
  for (size_t j = 0; j < kVectors; ++j) _mm512_storeu_pd(plus.data() + 8 * j, sums[j]);
  return finish(plus, all);
}
#endif

void insert_top(std::vector<TopValue>& top, TopValue candidate) {
  const auto place = std::find_if(
      top.begin(), top.end(), [&](const TopValue& held) { return candidate.value > held.value; });
  top.insert(place, candidate);
  if (top.size() > static_cast<size_t>(kSummaryTop)) top.pop_back();
}

}  // namespace

namespace sketch_internal {

Sketch compute_portable(std::span<const float> values) {
  static constexpr auto kMasks = nibble_masks();
  std::array<double, kSketchSize> plus{};
  double all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = is_finite(values[i]) ? static_cast<double>(values[i]) : 0.0;
    const auto bits = std::bit_cast<uint64_t>(value);
    const uint64_t signs = sketch_signs(i);
    all += value;
    for (size_t k = 0; k < plus.size(); k += 4) {
      const std::array<uint64_t, 4>& mask = kMasks[(signs >> k) & 15];
      for (size_t j = 0; j < 4; ++j) plus[k + j] += std::bit_cast<double>(bits & mask[j]);
    }
  }
  return finish(plus, all);
}

}  // namespace sketch_internal

Sketch compute_sketch(std::span<const float> values) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return compute_avx512(values);
#endif
  return sketch_internal::compute_portable(values);
}

double sketch_distance(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum / kSketchSize);
}

double sketch_norm(const Sketch& a) {
  return sketch_distance(a, Sketch{});
}

std::vector<TopValue> largest_values(std::span<const float> values) {
  std::vector<TopValue> top;
  float fifth = -std::numeric_limits<float>::infinity();  // the least value that is in `top`
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    if (!(value > fifth) || !is_finite(value)) continue;
    insert_top(top, {static_cast<int64_t>(i), value});
    if (top.size() == static_cast<size_t>(kSummaryTop)) fifth = top.back().value;
  }
  return top;
}

Summary summarize(std::span<const float> values) {
  // Independent sums that the compiler can put into vectors; their order is fixed.
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::array<double, kLanes> squares{};
  std::array<float, kLanes> least;
  least.fill(std::numeric_limits<float>::infinity());
  std::array<int32_t, kLanes> nonfinite{};
  const auto add = [&](size_t lane, float value) {
    const bool finite = is_finite(value);
    const double wide = finite ? static_cast<double>(value) : 0.0;
    nonfinite[lane] += finite ? 0 : 1;
    sums[lane] += wide;
    squares[lane] += wide * wide;
    least[lane] = finite && value < least[lane] ? value : least[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[i + lane]);
  }
  for (size_t lane = 0; i + lane < values.size(); ++lane) add(lane, values[i + lane]);

  Summary summary;
  summary.top = largest_values(values);
  summary.nonfinite = std::accumulate(nonfinite.begin(), nonfinite.end(), int64_t{0});
  summary.nan =
      summary.nonfinite == 0 ? 0 : std::count_if(values.begin(), values.end(), [](float value) {
        return std::isnan(value);
      });
  summary.l2 = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  if (summary.top.empty()) {
    summary.min = summary.max = summary.mean = std::numeric_limits<double>::quiet_NaN();
    return summary;
  }
  summary.min = static_cast<double>(*std::min_element(least.begin(), least.end()));
  summary.max = static_cast<double>(summary.top.front().value);
  summary.argmax = summary.top.front().index;
  summary.mean = std::accumulate(sums.begin(), sums.end(), 0.0) /
                 static_cast<double>(static_cast<int64_t>(values.size()) - summary.nonfinite);
  return summary;
}

}  // namespace assay
