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
// or extremes contradict: no value is above the maximum or below the minimum, and what is none of
// the largest values is at most `most_unlisted`.
std::map<int64_t, double> min_differences(const SingleValues& a, const SingleValues& b,
                                          size_t from);

// Where the other log does not count them, -Infinity in logits is padding: in the reference
// anywhere, in the judged log as the last of all values.
enum class InfinitePadding : uint8_t { kAnywhere, kAtEnd };

// Of the values from `from` on, which the other log does not list, and but for the `excluded` ones
// (ascending): how many are NaN, or infinities beyond padding and those that the other counts.
int64_t nonfinite_beyond(const Record& record, size_t from, std::span<const int64_t> excluded,
                         const std::optional<int64_t>& counted, InfinitePadding padding);

}  // namespace assay
