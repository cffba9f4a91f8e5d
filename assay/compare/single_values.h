#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "assay/log/record.h"

namespace assay {

// What is known of the elements of a tensor, one by one, without all of its values.
struct SingleValues {
  std::span<const float> values;        // of the first elements
  std::span<const TopValue> top;        // the largest of all, if they are known
  const Summary* summary = nullptr;     // of all elements, if there is one
  std::optional<double> most_unlisted;  // what no element that is not in `top` is above
};

// Of two tensors a and b of one size, the element and the least that |a[i] - b[i]| can be, for all
// elements from `from` on of which one log says something that the other's values, largest values
// or extremes contradict: no value is above the maximum or below the minimum, and what is not among
// the largest values is at most `most_unlisted`.
std::map<int64_t, double> min_differences(const SingleValues& a, const SingleValues& b,
                                          size_t from);

// Of the values from `from` on, which the other log does not list, and but for the `excluded` ones
// (ascending): how many are NaN, or infinities beyond those that the other counts. Where that does
// not count them, `allows_masks` says whether -Infinity in logits is accepted.
int64_t nonfinite_beyond(const Record& record, size_t from, std::span<const int64_t> excluded,
                         const std::optional<int64_t>& counted, bool allows_masks);

// Whether a value from `from` on is -Infinity and a later one is not: a mask, and not padding.
bool has_mask(const Record& record, size_t from);

}  // namespace assay
