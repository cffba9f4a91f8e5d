#include "assay/golden/golden_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/log/sketch.h"

namespace assay {
namespace {

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace

double golden_error(const Record& want, std::span<const float> got) {
  // A sketch ignores values that are not finite: they have to be found here.
  if (static_cast<int64_t>(got.size()) != want.n || want.values.size() > got.size() ||
      !all_finite(got) || !all_finite(want.values) || !want.summary || !want.sketch ||
      want.summary->nonfinite != 0 || !(want.summary->l2 > 0.0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double head = 0.0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want.values[i]);
    head += difference * difference;
  }
  // std::max() returns its first argument if one is NaN: the head is finite, the sketch may not be.
  const double whole = sketch_distance(compute_sketch(got), *want.sketch);
  return std::max(whole, std::sqrt(head)) / want.summary->l2;
}

}  // namespace assay
