#include "assay/compare/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "assay/compare/record_view.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

// The logarithm of the sum of exp(value); NaN where there is none.
double log_sum(std::span<const float> values) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float value : values) largest = std::max(largest, static_cast<double>(value));
  double sum = 0;
  for (const float value : values) sum += std::exp(static_cast<double>(value) - largest);
  return largest + std::log(sum);
}

bool sums_to_one(const Record& record) {
  if (!record.has_all_values() || record.values.empty()) return false;
  // No probability is above 1: most logits are recognised without a sum.
  const float largest = *std::max_element(record.values.begin(), record.values.end());
  if (!(largest <= static_cast<float>(kUnitSum))) return false;
  return std::abs(log_sum(record.values)) <= kUnitSum;
}

// The least and the most that the logarithm of the sum of the exponentials can be by the values and
// the largest elements that are listed; nothing where they are not.
struct Range {
  double least = 0;
  double most = 0;
};

std::optional<Range> range_of_log_sum(const Record& record) {
  if (record.has_all_values()) {
    if (record.values.empty()) return std::nullopt;
    const double sum = log_sum(record.values);
    return std::isfinite(sum) ? std::optional(Range{sum, sum}) : std::nullopt;
  }
  if (!record.summary || record.summary->top.empty()) return std::nullopt;
  std::vector<float> top;
  for (const TopValue& element : record.summary->top) top.push_back(element.value);
  const double least = log_sum(top);
  if (!std::isfinite(least)) return std::nullopt;
  const auto others = static_cast<double>(record.n) - static_cast<double>(top.size());
  const auto last = static_cast<double>(*std::min_element(top.begin(), top.end()));
  return Range{least, least + std::log1p(std::max(others, 0.0) * std::exp(last - least))};
}

// Of a record without all values that lists its largest elements: whether these may be
// log-probabilities.
bool could_be_log_probabilities(const Record& record) {
  if (record.has_all_values() || !record.summary || !(record.summary->max <= 0)) return false;
  const std::optional<Range> range = range_of_log_sum(record);
  return range && range->least <= kUnitSum && range->most >= -kUnitSum;
}

bool is_log_probabilities(const Record& record) {
  return record.checkpoint == kLogProbabilitiesName || sums_to_one(record) ||
         could_be_log_probabilities(record);
}

// The first element that both list among their largest, ref's first, and its difference.
std::optional<double> difference_of_tops(const Record& ref, const Record& got) {
  for (const Record* record : {&ref, &got}) {
    if (!record->summary) continue;
    for (const TopValue& top : record->summary->top) {
      const auto a = value_at(ref, top.index);
      const auto b = value_at(got, top.index);
      if (a && b && std::isfinite(*a) && std::isfinite(*b)) {
        return static_cast<double>(*a) - static_cast<double>(*b);
      }
    }
  }
  return std::nullopt;
}

// What to add to `got`; nothing where that is not known.
std::optional<double> constant_between(const Record& ref, const Record& got) {
  const bool ref_is_one = is_log_probabilities(ref);
  const Record& logits = ref_is_one ? got : ref;
  if (logits.has_all_values() && !logits.values.empty()) {
    return (ref_is_one ? -1 : 1) * log_sum(logits.values);
  }
  const auto mean = [](const Record& record) -> double {
    if (record.has_all_values()) return summarize(record.values).mean;
    return record.summary ? record.summary->mean : std::nan("");
  };
  const double means = mean(ref) - mean(got);
  const std::optional<double> constant =
      std::isfinite(means) ? std::optional(means) : difference_of_tops(ref, got);
  const std::optional<Range> range = range_of_log_sum(logits);
  if (!constant || !range) return constant;
  // The constant is what the logits' own largest elements leave to it.
  return ref_is_one ? std::clamp(*constant, -range->most, -range->least)
                    : std::clamp(*constant, range->least, range->most);
}

// Sums that were made of -Infinity, too, say nothing of the other elements.
void forget_padding(Summary& summary) {
  for (double* number : {&summary.min, &summary.mean}) {
    if (std::isinf(*number) && *number < 0) *number = std::nan("");
  }
  if (std::isinf(summary.l2)) summary.l2 = std::nan("");
}

void shift_summary(double constant, int64_t n, Summary& summary) {
  const auto count = static_cast<double>(n - summary.nonfinite);
  const double squares =
      summary.l2 * summary.l2 + 2 * constant * count * summary.mean + count * constant * constant;
  summary.l2 = std::sqrt(std::max(squares, 0.0));
  if (std::isnan(squares)) summary.l2 = squares;
  summary.min += constant;
  summary.max += constant;
  summary.mean += constant;
  for (TopValue& top : summary.top) top.value += static_cast<float>(constant);
}

bool has_finite_elements_only(const Record& record) {
  return record.summary && record.summary->counts_nonfinite && record.summary->nonfinite == 0;
}

// What to add to each sum of `got`'s sketch where `constant` is added to each element that is
// finite. Which are is what the reference or a count says; nothing where neither does.
std::optional<Sketch> sketch_of_constant(double constant, const Record& ref, const Record& got) {
  constexpr int64_t kMaxElements = int64_t{1} << 24;  // above any vocabulary
  std::vector<float> ones;
  if (std::ssize(ref.values) == got.n) {
    for (const float value : ref.values) ones.push_back(std::isfinite(value) ? 1.0F : 0.0F);
    const auto infinite = std::count(ones.begin(), ones.end(), 0.0F);
    const bool counts = got.summary && got.summary->counts_nonfinite;
    if (counts && got.summary->nonfinite != infinite) return std::nullopt;
  } else if (got.n <= kMaxElements &&
             (has_finite_elements_only(ref) || has_finite_elements_only(got))) {
    ones.assign(static_cast<size_t>(got.n), 1.0F);
  } else {
    return std::nullopt;
  }
  Sketch sketch = compute_sketch(ones);
  for (double& sum : sketch) sum *= constant;
  return sketch;
}

// The norm of a record without a mean, which the constant would change by that: as far from the
// reference's as it is from that of the reference in the record's terms. Neither is further apart
// than the two tensors are.
double norm_without_mean(double constant, double l2, const Record& ref) {
  if (!ref.has_all_values() && !ref.summary) return std::nan("");
  Summary shifted = ref.has_all_values() ? summarize(ref.values) : *ref.summary;
  const double norm = shifted.l2;
  shift_summary(-constant, ref.n, shifted);
  const double known = norm + l2 - shifted.l2;
  return known < 0 ? 0 : known;  // NaN stays NaN
}

}  // namespace

std::string sibling_of(std::string_view checkpoint) {
  if (checkpoint == kLogitsName) return std::string(kLogProbabilitiesName);
  return checkpoint == kLogProbabilitiesName ? std::string(kLogitsName) : std::string();
}

void read_as_logits(Record& record) {
  if (!is_logits_name(record.checkpoint)) return;
  if (record.summary && (!record.summary->counts_nonfinite || record.summary->nonfinite > 0)) {
    forget_padding(*record.summary);
  }
  if (record.summary && record.summary->argmax < 0 && !record.summary->top.empty()) {
    record.summary->argmax = record.summary->top.front().index;
  }
  if (record.checkpoint != kLogProbabilitiesName || record.top.empty()) return;
  if (record.has_all_values()) return;
  if (record.summary) {
    if (record.top.size() > record.summary->top.size()) record.summary->top = record.top;
    return;
  }
  Summary& summary = record.summary.emplace(empty_summary());
  summary.max = static_cast<double>(record.top.front().value);
  summary.argmax = record.top.front().index;
  summary.top = record.top;
}

std::optional<double> most_of_unlisted(const Record& record, std::span<const TopValue> top) {
  if (top.empty()) return std::nullopt;
  auto most = static_cast<double>(top.front().value);
  for (const TopValue& entry : top) {
    if (std::isnan(entry.value)) return std::nullopt;
    most = std::min(most, static_cast<double>(entry.value));
  }
  if (record.checkpoint != kLogProbabilitiesName || record.top.empty()) return most;
  if (record.top.front().index != top.front().index) return most;
  double left = 1;
  for (const TopValue& entry : record.top) left -= std::exp(static_cast<double>(entry.value));
  // `top` may have been put in terms of other logits; the record's own list never is.
  const double constant =
      static_cast<double>(top.front().value) - static_cast<double>(record.top.front().value);
  return std::min(most, std::log(std::max(left, 0.0) + kUnitSum) + constant);
}

bool are_log_probabilities(const Record& ref, const Record& got) {
  if (is_log_probabilities(ref) == is_log_probabilities(got)) return false;
  for (const auto& [one, other] : {std::pair(&ref, &got), {&got, &ref}}) {
    if (one->checkpoint == kLogProbabilitiesName || !could_be_log_probabilities(*one)) continue;
    if (!other->has_all_values() || other->values.empty()) continue;
    // A summary that could be of either is of what it is nearer to.
    const auto largest =
        static_cast<double>(*std::max_element(other->values.begin(), other->values.end()));
    const double as_it_is = std::abs(one->summary->max - largest);
    const double shifted = std::abs(one->summary->max - (largest - log_sum(other->values)));
    if (as_it_is <= shifted) return false;
  }
  return true;
}

bool is_constant_known(const Record& ref, const Record& got) {
  const Record& logits = is_log_probabilities(ref) ? got : ref;
  return (logits.has_all_values() && !logits.values.empty()) || sums_to_one(ref) ||
         sums_to_one(got);
}

Record in_terms_of(const Record& ref, const Record& got) {
  Record shifted = got;
  const std::optional<double> constant = constant_between(ref, got);
  if (!constant || !std::isfinite(*constant)) {
    // What is not finite must not be lost with the rest.
    const auto is_possible_logit = [](float value) {
      return !std::isnan(value) && value < INFINITY;
    };
    std::erase_if(shifted.values, is_possible_logit);
    if (shifted.summary) {
      std::vector<TopValue> top = std::move(shifted.summary->top);
      std::erase_if(top, [&](const TopValue& entry) { return is_possible_logit(entry.value); });
      const int64_t argmax = shifted.summary->argmax;
      shifted.summary = counts_of(*shifted.summary);
      shifted.summary->top = std::move(top);
      shifted.summary->argmax = argmax;  // whatever the constant
    }
    shifted.sketch.reset();
    return shifted;
  }
  for (float& value : shifted.values) {
    value = static_cast<float>(static_cast<double>(value) + *constant);
  }
  if (shifted.has_all_values()) {  // from which the rest is computed
    shifted.summary.reset();
    shifted.sketch.reset();
    return shifted;
  }
  if (shifted.summary) {
    const bool has_mean = !std::isnan(shifted.summary->mean);
    const double l2 = shifted.summary->l2;
    shift_summary(*constant, got.n, *shifted.summary);
    if (!has_mean) shifted.summary->l2 = norm_without_mean(*constant, l2, ref);
  }
  if (!shifted.sketch) return shifted;
  const std::optional<Sketch> added = sketch_of_constant(*constant, ref, got);
  if (!added) {
    shifted.sketch.reset();  // of which elements it is the sum is not known
    return shifted;
  }
  for (size_t k = 0; k < added->size(); ++k) (*shifted.sketch)[k] += (*added)[k];
  return shifted;
}

}  // namespace assay
