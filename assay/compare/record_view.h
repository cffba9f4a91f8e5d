#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "assay/log/record.h"

namespace assay {

// Values that are left out of a comparison, as indices in the tensor; they may lie beyond the
// values of either record.
struct SetAside {
  std::vector<int64_t> indices;  // sorted
  // Whether garbage of that record is among them: then nothing of its whole tensor can be computed
  // from its values. Padding is left out of both and spoils neither.
  bool spoils_ref = false;
  bool spoils_got = false;
};

// The value of an element among the first ones or the largest that are listed; nothing where it is
// neither.
std::optional<float> value_at(std::span<const float> values, std::span<const TopValue> top,
                              int64_t index);
std::optional<float> value_at(const Record& record, int64_t index);

// The same for many elements: a list may be as long as the vocabulary.
class KnownValues {
 public:
  KnownValues(std::span<const float> values, std::span<const TopValue> top);
  std::optional<float> at(int64_t index) const;

 private:
  std::span<const float> values_;
  std::vector<TopValue> by_index_;
};

// The largest element that is listed is the maximum, where a summary does not state it.
void complete_maximum(Summary& summary);

// What the norm of a tensor of `n` finite elements is at least: each extreme, all of the largest
// elements that are listed, |mean| sqrt(n).
double least_norm(const Summary& summary, double n);

// What one log states about a tensor, or what can be computed from all of its values.
struct RecordView {
  // The norm, or its estimate.
  std::optional<double> norm() const;

  std::span<const float> values;  // the head or all; those set aside are -Infinity
  std::optional<Sketch> sketch;
  std::optional<double> l2;
  std::optional<Summary> summary;  // a number that is not known is NaN
  std::optional<int64_t> nonfinite;
  std::optional<int64_t> nan;
  std::vector<TopValue> top;
  std::optional<double> most_unlisted;  // what no element that is not in `top` is above
};

// What of the whole tensor is to be computed where a record has all values.
struct ViewRequest {
  bool sums = false;
  bool sketch = false;
};

// `values`: those of `record`, without what was set aside. `spoiled`: garbage is among that.
RecordView view_of(const Record& record, std::span<const float> values, bool spoiled,
                   ViewRequest request);

}  // namespace assay
