#include "assay/compare/single_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "assay/compare/log_probabilities.h"
#include "assay/compare/record_view.h"

namespace assay {
namespace {

// Extremes may have been rounded when they were written.
constexpr double kRounding = 1e-6;

bool is_masked(float value) {
  return std::isinf(value) && value < 0;
}

class MinDifferences {
 public:
  explicit MinDifferences(size_t from) : from_(from) {}

  // The elements that `mine` states, checked against the statements of `other`.
  void hold(const SingleValues& mine, const SingleValues& other) {
    const std::optional<double>& least = other.most_unlisted;
    const KnownValues there(other.values, other.top);
    // Few values are out of these bounds; those at the places of the other's largest elements are
    // held when it is its turn.
    double lower = -std::numeric_limits<double>::infinity();
    double upper = least.value_or(std::numeric_limits<double>::infinity());
    if (other.summary != nullptr) {
      lower = std::fmax(lower, other.summary->min);  // NaN where it is not known
      upper = std::fmin(upper, other.summary->max);
    }
    for (size_t i = from_; i < mine.values.size(); ++i) {
      const auto value = static_cast<double>(mine.values[i]);
      if (!(value >= lower && value <= upper)) hold(static_cast<int64_t>(i), value, other, there);
    }
    for (const TopValue& top : mine.top) {
      if (top.index < static_cast<int64_t>(from_)) continue;
      hold(top.index, static_cast<double>(top.value), other, there);
    }
  }

  std::map<int64_t, double> take() { return std::move(least_); }

 private:
  void hold(int64_t index, double value, const SingleValues& other, const KnownValues& there) {
    if (!std::isfinite(value)) return;
    double least = 0;
    // NaN, where a summary lacks a number, is not above anything.
    const auto raise = [&](double excess, double rounding) {
      if (std::isfinite(excess) && excess > std::max(least, rounding)) least = excess;
    };
    if (const std::optional<float> same = there.at(index)) {
      raise(std::abs(value - static_cast<double>(*same)), 0);
    } else {
      if (other.most_unlisted) raise(value - *other.most_unlisted, 0);
      if (other.summary != nullptr) {
        const double rounding = kRounding * std::abs(value);
        raise(value - other.summary->max, rounding);
        raise(other.summary->min - value, rounding);
      }
    }
    if (least == 0) return;
    double& known = least_[index];
    known = std::max(known, least);
  }

  size_t from_;
  std::map<int64_t, double> least_;
};

}  // namespace

std::map<int64_t, double> min_differences(const SingleValues& a, const SingleValues& b,
                                          size_t from) {
  MinDifferences differences(from);
  differences.hold(a, b);
  differences.hold(b, a);
  return differences.take();
}

int64_t nonfinite_beyond(const Record& record, size_t from, std::span<const int64_t> excluded,
                         const std::optional<int64_t>& counted, bool allows_masks) {
  const bool accepts = allows_masks && is_logits_name(record.checkpoint) && !counted;
  int64_t nan = 0;
  int64_t infinite = 0;
  for (size_t i = from; i < record.values.size(); ++i) {
    const float value = record.values[i];
    if (std::isfinite(value) || (accepts && is_masked(value))) continue;
    const auto index = static_cast<int64_t>(i);
    if (std::binary_search(excluded.begin(), excluded.end(), index)) continue;
    ++(std::isnan(value) ? nan : infinite);
  }
  return nan + std::max<int64_t>(0, infinite - counted.value_or(0));
}

bool has_mask(const Record& record, size_t from) {
  const auto begin =
      record.values.begin() + static_cast<std::ptrdiff_t>(std::min(from, record.values.size()));
  const auto first = std::find_if(begin, record.values.end(), is_masked);
  return !std::all_of(first, record.values.end(), is_masked);
}

}  // namespace assay
