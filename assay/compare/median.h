#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace assay {

// The middle of `values`, the upper one of two: one of the values, not a mean. Orders them anew;
// there must be one, and `less` must order them: the usual one does not where one is NaN.
template <class T, class Less = std::less<>>
T upper_median(std::vector<T>& values, Less less = {}) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end(), less);
  return *middle;
}

}  // namespace assay
