#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace assay::causes {

// ‖logged - right‖ / ‖right‖, of as many elements; infinite where only `right` is zero. NaN where
// one of them is.
inline double relative_distance(std::span<const float> right, std::span<const float> logged) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const double d = static_cast<double>(logged[i]) - static_cast<double>(right[i]);
    difference += d * d;
    norm += static_cast<double>(right[i]) * static_cast<double>(right[i]);
  }
  if (difference == 0) return 0;
  return norm > 0 ? std::sqrt(difference / norm) : std::numeric_limits<double>::infinity();
}

}  // namespace assay::causes
