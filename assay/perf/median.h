#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace assay {

// Of at least one value, none of them NaN. The mean of the middle two where they are even in
// number: of finite values always finite.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : std::midpoint(values[middle - 1], values[middle]);
}

}  // namespace assay
