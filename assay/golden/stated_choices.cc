#include "assay/golden/stated_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace assay {
namespace {

// Manifests hold three digits, logs 32-bit floats. golden/lint.py has the same numbers and the same
// rule once more, on purpose: it is an oracle that runs without a build, and shares no code with
// what it judges.
constexpr double kGapRounding = 6e-3;
constexpr double kLogitRounding = 0x1p-22;

// The largest elements that a record of logits shows, largest first, the lower index first of equal
// ones: of all its values, at most `count`; else those of its summary.
std::vector<TopValue> largest_of(const Record& record, size_t count) {
  if (!record.has_all_values()) {
    return record.summary ? record.summary->top : std::vector<TopValue>();
  }
  std::vector<TopValue> all;
  for (const float value : record.values) all.push_back({std::ssize(all), value});
  count = std::min(count, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count),
                            [](const TopValue& a, const TopValue& b) {
                              return a.value != b.value ? a.value > b.value : a.index < b.index;
                            });
  all.resize(count);
  return all;
}

// L2 of the record's logits; NaN where that is not known.
double norm_of(const Record& record) {
  if (!record.has_all_values()) return record.summary ? record.summary->l2 : std::nan("");
  double squares = 0;
  for (const float value : record.values) squares += double{value} * double{value};
  return std::sqrt(squares);
}

// What the gap between two logits may be off by. `largest`: the greater magnitude of the two.
double rounding_of(double gap, double largest) {
  return kGapRounding * gap + kLogitRounding * largest;
}

// The same key as a review names it.
std::string key_of(const GoldenLog& log, const std::string& key) {
  return fmt::format("logs[{}].{}", log.file, key);
}

}  // namespace

std::string StatedChoices::take(const Record& record) {
  if (record.checkpoint != "logits") return {};
  const std::vector<TopValue> top = largest_of(record, 2);
  if (top.size() < 2) {
    knows_all_gaps_ = false;
  } else {
    const double gap = double{top[0].value} - double{top[1].value};
    if (!std::isnan(gap_) && !(gap >= gap_)) gap_ = gap;
    for (const TopValue& one : {top[0], top[1]}) {
      if (std::isfinite(one.value)) largest_ = std::max(largest_, std::abs(double{one.value}));
    }
  }
  take_margins(record, top);
  if (is_greedy_step(step_of(record))) {
    ++greedy_steps_;
    take_margins(record, largest_allowed(record, 2));
  }
  std::string otherwise = check_greedy(record);
  return otherwise.empty() ? check_greedy_gap(record) : otherwise;
}

void StatedChoices::take_margins(const Record& record, std::span<const TopValue> top) {
  const double norm = norm_of(record);
  if (top.size() < 2 || std::isnan(norm)) {
    knows_all_margins_ = false;
    return;
  }
  const double margin = (double{top[0].value} - double{top[1].value}) / norm;
  if (!std::isnan(margin_) && !(margin >= margin_)) margin_ = margin;
  margin_rounding_ =
      std::max(margin_rounding_, kLogitRounding * std::abs(double{top[0].value}) / norm);
}

// The largest elements that are no padding, at most `count`.
std::vector<TopValue> StatedChoices::largest_allowed(const Record& record, size_t count) const {
  std::vector<TopValue> top = largest_of(record, padding_ids_.size() + count);
  std::erase_if(top, [&](const TopValue& one) { return is_padding(one.index); });
  top.resize(std::min(top.size(), count));
  return top;
}

bool StatedChoices::is_padding(int64_t id) const {
  return std::ranges::find(padding_ids_, id) != padding_ids_.end();
}

std::string StatedChoices::check_greedy(const Record& record) const {
  const int64_t step = step_of(record);
  if (!is_greedy_step(step)) return {};
  const int32_t stated = log_.greedy[static_cast<size_t>(step)];
  const std::vector<TopValue> top = largest_of(record, padding_ids_.size() + 1);
  const auto padding = [&](const TopValue& one) { return is_padding(one.index); };
  const auto best = std::ranges::find_if_not(top, padding);
  int64_t chosen = -1;
  if (best != top.end()) {
    chosen = best->index;
  } else if (record.summary && !is_padding(record.summary->argmax)) {
    chosen = record.summary->argmax;
  }
  if (chosen < 0 && is_padding(stated)) {
    return fmt::format(
        "chooses no padding, and the manifest states {} in {}, which is one of its "
        "padding_ids",
        stated, key_of(log_, fmt::format("greedy[{}]", step)));
  }
  if (chosen < 0 || chosen == stated) return {};
  // Of elements that a 32-bit float does not tell apart any may have been the largest.
  const auto is_level = [&](const TopValue& one) {
    return one.index == stated && !is_padding(stated) && one.value >= best->value;
  };
  if (best != top.end() &&
      std::ranges::any_of(largest_of(record, record.values.size()), is_level)) {
    return {};
  }
  return fmt::format("chooses {} at {}, and the manifest states {} in {}", chosen, record.token_idx,
                     stated, key_of(log_, fmt::format("greedy[{}]", step)));
}

std::string StatedChoices::check_greedy_gap(const Record& record) const {
  const int64_t step = step_of(record);
  if (step < 0 || step >= std::ssize(log_.greedy_gaps)) return {};
  const std::vector<TopValue> top = largest_allowed(record, 2);
  if (top.size() < 2) return {};
  const double gap = double{top[0].value} - double{top[1].value};
  const double stated = log_.greedy_gaps[static_cast<size_t>(step)];
  const double largest = std::max(std::abs(double{top[0].value}), std::abs(double{top[1].value}));
  if (std::abs(stated - gap) <= rounding_of(stated, largest)) return {};
  return fmt::format(
      "has {:.3g} between the largest two logits at {}, and the manifest states {:.3g} in {}", gap,
      record.token_idx, stated, key_of(log_, fmt::format("greedy_gaps[{}]", step)));
}

std::string StatedChoices::check_gap() const {
  if (!log_.argmax_min_gap || gap_ == std::numeric_limits<double>::infinity()) return {};
  const double stated = *log_.argmax_min_gap;
  const double rounding = rounding_of(stated, largest_);
  // A record of which it is not known may have a smaller one.
  const double excess = knows_all_gaps_ ? std::abs(stated - gap_) : stated - gap_;
  if (excess <= rounding) return {};
  return fmt::format(
      "has logits whose largest two are as near as {:.3g}, and the manifest states {:.3g} in {}",
      gap_, stated, key_of(log_, "argmax_min_gap"));
}

std::string StatedChoices::check_margin() const {
  if (!log_.argmax_margin || margin_ == std::numeric_limits<double>::infinity()) return {};
  const double stated = *log_.argmax_margin;
  const bool knows_all = knows_all_margins_ && greedy_steps_ == std::ssize(log_.greedy);
  const double excess = knows_all ? std::abs(stated - margin_) : stated - margin_;
  if (excess <= kGapRounding * stated + margin_rounding_) return {};
  return fmt::format(
      "has logits whose largest two are as near as {:.3g} of their norm, and the manifest states "
      "{:.3g} in {}",
      margin_, stated, key_of(log_, "argmax_margin"));
}

std::string StatedChoices::check_smallest() const {
  std::string otherwise = check_gap();
  return otherwise.empty() ? check_margin() : otherwise;
}

}  // namespace assay
