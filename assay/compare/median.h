#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace assay {

// The middle of `values`, the upper one of two: one of the values, not a mean. Orders them anew;
// there must be one, and none may be NaN.
template <class T>
T upper_median(std::vector<T>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace assay
