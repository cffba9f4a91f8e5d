#include "assay/compare/self_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "assay/compare/difference_bounds.h"
#include "assay/compare/garbage.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/value_metrics.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

constexpr double kSlack = 1e-2;
constexpr double kSlackOfAll = 1e-4;   // of what is computed from all values, at least
constexpr double kMostExcused = 1e-4;  // unit of values that are printed, whose rounding counts

// The unit of the last decimal that values were printed with; 0 if they have more than six.
double printed_unit(std::span<const float> values) {
  for (const double unit : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
    const bool printed = std::all_of(values.begin(), values.end(), [&](float value) {
      const auto wide = static_cast<double>(value);
      return !std::isfinite(value) ||
             static_cast<float>(std::nearbyint(wide / unit) * unit) == value;
    });
    if (printed) return unit;
  }
  return 0;
}

class SelfCheck {
 public:
  SelfCheck(const Record& record, std::span<const int64_t> set_aside, double held_to)
      : record_(record),
        set_aside_(set_aside),
        summary_(record.summary),
        n_(static_cast<double>(record.n)),
        slack_of_all_(std::clamp(held_to, kSlackOfAll, kSlack)) {
    if (summary_) complete_maximum(*summary_);
  }

  std::string_view find() {
    std::string_view found = find_exactly();
    if (found.empty()) return found;
    // Most values are not rounded: what is, is looked at where something does not fit. Beyond half
    // of a unit of the fourth decimal, rounding excuses no more than 1 %.
    const double unit = printed_unit(record_.values);
    if (unit == 0) return found;
    rounding_ = unit <= kMostExcused ? unit / 2 : 0;
    slack_of_all_ = kSlack;
    return find_exactly();
  }

 private:
  std::string_view find_exactly() const {
    if (summary_ && contradicts(*summary_)) return "the numbers of its summary";
    if (record_.sketch && !std::isfinite(sketch_norm(*record_.sketch))) {
      return "its sketch and any sum of finite values";
    }
    const bool computable = record_.has_all_values() && set_aside_.empty();
    if (summary_) {
      const bool good =
          computable ? agrees(summary_of(record_.values), *summary_) : holds_values(*summary_);
      if (!good) return "its summary and its values";
    }
    if (!record_.sketch) return {};
    if (computable && !agrees(compute_sketch(record_.values))) return "its sketch and its values";
    if (!computable && !within_norm(norm_of_head(), sketch_norm(*record_.sketch) / kMinNormRatio))
      return "its sketch and its values";
    if (summary_ && !fits_norm(*summary_)) return "its sketch and its summary";
    return {};
  }

  // What is compared of the values' summary: not the largest elements.
  static Summary summary_of(std::span<const float> values) {
    const std::optional<ValueExtents> extents = finite_extents(values);
    if (!extents) return summarize(values);
    Summary summary;
    summary.min = extents->least;
    summary.max = extents->largest;
    summary.mean = extents->sum / static_cast<double>(values.size());
    summary.l2 = std::sqrt(extents->squares);
    summary.nan = 0;
    return summary;
  }

  // NaN stands for what a summary does not tell: comparisons with it find nothing.
  bool contradicts(const Summary& s) const {
    for (const double number : {s.min, s.max, s.mean, s.l2}) {
      if (std::isinf(number)) return true;  // they are of finite values
    }
    const double finite = count_finite(s);
    const double slack = kSlack * std::fmax(std::abs(s.min), std::abs(s.max));
    if (s.min > s.max + slack || s.mean > s.max + slack || s.mean < s.min - slack) return true;
    // One element is the one extreme, no other is beyond the other one. More elements allow more.
    const double sum = s.mean * finite;
    const auto beyond = [&](double most, double one, double others) {
      const double rounded = std::abs(sum) + std::abs(one) + finite * std::abs(others);
      return most > kSlack * rounded;
    };
    if (beyond(sum - s.min - (finite - 1) * s.max, s.min, s.max)) return true;
    if (beyond(s.max + (finite - 1) * s.min - sum, s.max, s.min)) return true;
    if (least_norm(s, finite) > s.l2 * (1 + kSlack)) return true;
    if (s.l2 > largest_of(s) * std::sqrt(finite) * (1 + kSlack)) return true;
    if (s.nonfinite < 0 || (s.counts_nonfinite && s.nan && *s.nan > s.nonfinite)) return true;
    for (size_t i = 0; i < s.top.size(); ++i) {
      const auto value = static_cast<double>(s.top[i].value);
      if (s.top[i].index >= record_.n || value > s.max + slack || value < s.min - slack)
        return true;
      if (i > 0 && value > static_cast<double>(s.top[i - 1].value)) return true;
    }
    if (s.argmax >= record_.n && record_.n > 0) return true;
    if (s.top.empty()) return false;
    if (static_cast<double>(s.top.front().value) < s.max - slack - rounding_) return true;
    return s.argmax >= 0 && !tops(s, s.argmax);
  }

  double count_finite(const Summary& s) const {
    return s.counts_nonfinite ? std::max(0.0, n_ - static_cast<double>(s.nonfinite)) : n_;
  }

  // The largest magnitude; NaN where the extremes are not stated.
  static double largest_of(const Summary& s) {
    if (std::isnan(s.min) || std::isnan(s.max)) return s.max + s.min;
    return std::max(std::abs(s.min), std::abs(s.max));
  }

  // Whether the element is one of the largest, or level with the largest.
  static bool tops(const Summary& s, int64_t index) {
    const auto found = std::find_if(s.top.begin(), s.top.end(),
                                    [&](const TopValue& top) { return top.index == index; });
    const float chosen = found == s.top.end() ? s.top.back().value : found->value;
    const auto gap = static_cast<double>(s.top.front().value) - static_cast<double>(chosen);
    return gap <= kSlack * std::abs(static_cast<double>(s.top.front().value));
  }

  // The summary that the values give against the one that is stated.
  bool agrees(const Summary& computed, const Summary& stated) const {
    const double of_sums = slack_of_all_ * computed.l2 + rounding_ * std::sqrt(n_);
    const double of_one =
        slack_of_all_ * std::max(std::abs(computed.min), std::abs(computed.max)) + rounding_;
    const auto off = [](double a, double b, double most) { return std::abs(a - b) > most; };
    if (off(computed.l2, stated.l2, of_sums) || off(computed.max, stated.max, of_one) ||
        off(computed.min, stated.min, of_one) ||
        off(computed.mean * std::sqrt(n_), stated.mean * std::sqrt(n_), of_sums)) {
      return false;
    }
    if (stated.counts_nonfinite && computed.nonfinite != stated.nonfinite) return false;
    if (stated.nan && computed.nan != stated.nan) return false;
    return holds_top(stated) && holds_argmax(stated) && are_largest(stated.top, of_one);
  }

  // Whether no value that is not listed is above one that is.
  bool are_largest(const std::vector<TopValue>& stated, double most) const {
    if (stated.empty()) return true;
    const std::vector<TopValue> largest = largest_values(record_.values);
    for (size_t i = 0; i < std::min(largest.size(), stated.size()); ++i) {
      const auto value = static_cast<double>(stated[i].value);
      if (!(value >= static_cast<double>(largest[i].value) - most)) return false;
    }
    return true;
  }

  bool agrees(const Sketch& computed) const {
    double squares = 0;
    for (const double sum : computed) squares += sum * sum;
    const double norm = std::sqrt(squares / kSketchSize);
    return sketch_distance(computed, *record_.sketch) <=
           slack_of_all_ * norm + rounding_ * std::sqrt(n_);
  }

  // Whether the values that are listed are elements of a tensor with that summary.
  bool holds_values(const Summary& s) const {
    if (!within_norm(norm_of_head(), s.l2)) return false;
    const double slack =
        kSlack * std::fmax(std::abs(s.min), std::abs(s.max)) + rounding_;  // NaN: not known
    int64_t nonfinite = 0;
    for (size_t i = 0; i < record_.values.size(); ++i) {
      if (is_set_aside(i)) continue;
      const auto value = static_cast<double>(record_.values[i]);
      nonfinite += std::isfinite(value) ? 0 : 1;
      if (std::isfinite(value) && (value > s.max + slack || value < s.min - slack)) return false;
    }
    if (s.counts_nonfinite && nonfinite > s.nonfinite) return false;
    return holds_top(s) && holds_argmax(s);
  }

  // Whether none of the values that are listed is above that of the element that is the largest.
  bool holds_argmax(const Summary& s) const {
    const auto index = static_cast<size_t>(s.argmax);
    if (s.argmax < 0 || index >= record_.values.size() || is_set_aside(index)) return true;
    const auto chosen = static_cast<double>(record_.values[index]);
    for (size_t i = 0; i < record_.values.size(); ++i) {
      const auto value = static_cast<double>(record_.values[i]);
      const double slack = kSlack * std::abs(value) + rounding_;
      if (std::isfinite(value) && !is_set_aside(i) && !(value <= chosen + slack)) return false;
    }
    return true;
  }

  // Whether the values that are listed of the largest elements are theirs.
  bool holds_top(const Summary& s) const {
    return std::all_of(s.top.begin(), s.top.end(), [&](const TopValue& top) {
      const auto index = static_cast<size_t>(top.index);
      if (index >= record_.values.size() || is_set_aside(index)) return true;
      const double difference =
          static_cast<double>(record_.values[index]) - static_cast<double>(top.value);
      const double most = kSlack * std::abs(static_cast<double>(top.value)) + rounding_;
      return std::abs(difference) <= most;
    });
  }

  bool fits_norm(const Summary& s) const {
    const double norm = sketch_norm(*record_.sketch);
    const double finite = count_finite(s);
    // NaN, where a number is not stated, is not above anything.
    const double least = std::fmax(s.l2, least_norm(s, finite));
    const double most = std::fmin(s.l2, largest_of(s) * std::sqrt(finite));
    return !(norm * (1 + kSlack) < kMinNormRatio * least || norm > kMaxNormRatio * most);
  }

  bool within_norm(double head, double norm) const {
    return !(head > norm * (1 + kSlack) + rounding_ * std::sqrt(n_));
  }

  double norm_of_head() const {
    if (set_aside_.empty()) return norm_of_finite(record_.values);
    std::vector<float> kept = record_.values;
    for (const int64_t index : set_aside_) {
      if (index < std::ssize(kept)) kept[static_cast<size_t>(index)] = 0;
    }
    return norm_of_finite(kept);
  }

  bool is_set_aside(size_t index) const {
    return !set_aside_.empty() &&
           std::binary_search(set_aside_.begin(), set_aside_.end(), static_cast<int64_t>(index));
  }

  const Record& record_;
  std::span<const int64_t> set_aside_;
  std::optional<Summary> summary_;  // of the record, with its maximum
  double n_;
  double slack_of_all_;
  double rounding_ = 0;
};

constexpr double kProbabilitySumError = 5e-2;  // that their sum may be off, as printed

// Whether all probabilities do not add up to 1, or those that are listed cannot be some of these.
// Those of a piece add up to less.
bool has_impossible_sum(const Record& record, bool is_piece) {
  double sum = 0;
  const double least_sum = is_piece ? 0 : 1 - kProbabilitySumError;
  if (record.has_all_values() && !record.values.empty()) {
    for (const float value : record.values) sum += std::exp(static_cast<double>(value));
    if (!(sum >= least_sum && sum <= 1 + kProbabilitySumError)) return true;
    sum = 0;
  }
  if (record.top.empty()) return false;
  double least = 0;
  for (const TopValue& top : record.top) {
    const auto value = static_cast<double>(top.value);
    if (value > kProbabilitySumError) return true;
    sum += std::exp(value);
    least = std::min(least, value);
  }
  const auto others = static_cast<double>(record.n) - static_cast<double>(record.top.size());
  return sum > 1 + kProbabilitySumError || sum + others * std::exp(least) < least_sum;
}

bool near(float a, float b) {
  const bool same = a == b;  // infinities, too
  const auto wide = static_cast<double>(a);
  return same ||
         std::abs(wide - static_cast<double>(b)) <= kProbabilitySumError + kSlack * std::abs(wide);
}

// Whether the values that are listed are those of the largest elements.
bool top_agrees_with_values(const Record& record) {
  for (const TopValue& top : record.top) {
    if (top.index >= std::ssize(record.values)) continue;
    const float value = record.values[static_cast<size_t>(top.index)];
    if (!near(value, top.value)) return false;
  }
  if (record.values.empty()) return true;
  const float largest = *std::max_element(record.values.begin(), record.values.end());
  const float first = record.top.front().value;
  return largest <= first || near(largest, first);
}

// Whether the summary's largest elements, and its maximum, are those of the list.
bool top_agrees_with_summary(const Record& record) {
  const Summary& summary = *record.summary;
  const size_t common = std::min(record.top.size(), summary.top.size());
  const KnownValues stated({}, summary.top);
  for (size_t i = 0; i < common; ++i) {
    const TopValue& listed = record.top[i];
    const float same = stated.at(listed.index).value_or(summary.top.back().value);
    if (!near(listed.value, same)) return false;
  }
  return std::isnan(summary.max) || near(record.top.front().value, static_cast<float>(summary.max));
}

std::string_view contradiction_in_probabilities(const Record& record, bool is_piece) {
  if (record.checkpoint != kLogProbabilitiesName) return {};
  if (!record.top.empty() && !top_agrees_with_values(record)) {
    return "its most probable tokens and its values";
  }
  if (!record.top.empty() && record.summary && !top_agrees_with_summary(record)) {
    return "its most probable tokens and its summary";
  }
  return has_impossible_sum(record, is_piece) ? "its probabilities and a sum of 1" : "";
}

}  // namespace

std::string_view contradiction_in(const Record& record, std::span<const int64_t> set_aside,
                                  double held_to, bool is_piece) {
  const auto found = contradiction_in_probabilities(record, is_piece);
  if (!found.empty()) return found;
  if (!record.summary && !record.sketch) return {};
  return SelfCheck(record, set_aside, held_to).find();
}

std::string_view contradiction_of(const Record& record, bool is_piece) {
  std::vector<int64_t> garbage;
  for (const Garbage& found : find_garbage(record)) garbage.push_back(found.index);
  std::sort(garbage.begin(), garbage.end());
  return contradiction_in(record, garbage, 1, is_piece);
}

}  // namespace assay
