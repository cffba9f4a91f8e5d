#include "assay/compare/record_view.h"

#include <algorithm>
#include <cmath>

#include "assay/compare/log_probabilities.h"
#include "assay/log/sketch.h"

namespace assay {

std::optional<float> value_at(std::span<const float> values, std::span<const TopValue> top,
                              int64_t index) {
  if (index < std::ssize(values)) return values[static_cast<size_t>(index)];
  const auto found =
      std::find_if(top.begin(), top.end(), [&](const TopValue& x) { return x.index == index; });
  return found == top.end() ? std::nullopt : std::optional(found->value);
}

std::optional<float> value_at(const Record& record, int64_t index) {
  return value_at(
      record.values,
      record.summary ? std::span<const TopValue>(record.summary->top) : std::span<const TopValue>(),
      index);
}

KnownValues::KnownValues(std::span<const float> values, std::span<const TopValue> top)
    : values_(values), by_index_(top.begin(), top.end()) {
  std::ranges::stable_sort(by_index_, {}, &TopValue::index);
}

std::optional<float> KnownValues::at(int64_t index) const {
  if (index < std::ssize(values_)) return values_[static_cast<size_t>(index)];
  const auto found = std::ranges::lower_bound(by_index_, index, {}, &TopValue::index);
  if (found == by_index_.end() || found->index != index) return std::nullopt;
  return found->value;
}

void complete_maximum(Summary& summary) {
  if (!std::isnan(summary.max) || summary.top.empty()) return;
  const float largest = summary.top.front().value;
  if (std::isfinite(largest)) summary.max = static_cast<double>(largest);
}

double least_norm(const Summary& summary, double n) {
  double squares = 0;
  for (const TopValue& top : summary.top) {
    const auto value = static_cast<double>(top.value);
    if (std::isfinite(value)) squares += value * value;
  }
  // Of fmax a NaN, which stands for what is not stated, is never the result.
  const double extreme = std::fmax(std::abs(summary.min), std::abs(summary.max));
  return std::fmax(std::sqrt(squares), std::fmax(extreme, std::abs(summary.mean) * std::sqrt(n)));
}

std::optional<double> RecordView::norm() const {
  if (l2 || !sketch) return l2;
  return sketch_norm(*sketch);
}

RecordView view_of(const Record& record, std::span<const float> values, bool spoiled,
                   ViewRequest request) {
  RecordView view;
  view.values = values;
  const bool computed = record.has_all_values() && !spoiled;
  if (computed && request.sketch) {
    view.sketch = compute_sketch(record.values);
  } else if (!computed) {
    view.sketch = record.sketch;
  }
  if (computed && request.sums) {
    view.summary = summarize(record.values);
  } else if (!computed) {
    view.summary = record.summary;
  }
  if (view.summary) {
    complete_maximum(*view.summary);
    if (!std::isnan(view.summary->l2)) view.l2 = view.summary->l2;
    if (view.summary->counts_nonfinite) view.nonfinite = view.summary->nonfinite;
    view.nan = view.summary->nan;
  }
  if (record.has_all_values() && !(spoiled && record.summary)) {
    view.top = largest_values(values);
  } else if (view.summary) {
    view.top = view.summary->top;
  }
  view.most_unlisted = most_of_unlisted(record, view.top);
  return view;
}

}  // namespace assay
