#include "assay/report/page_records.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "assay/report/failure_text.h"

namespace assay {
namespace {

// Whether anything of the two was held together, so that there are figures to draw.
bool has_figures(const RecordResult& result) {
  return result.failed() || result.evidence != Evidence::kUnproven || result.metrics.facts.any();
}

// What was not shown, compared or missing, by token.
std::vector<PageGap> all_gaps(const Comparison& comparison) {
  std::vector<PageGap> gaps;
  for (const RecordResult& result : comparison.results) {
    if (result.evidence != Evidence::kUnproven) continue;
    gaps.push_back({result.checkpoint, result.token_idx, false, unproven_text(result)});
  }
  for (const Gap& gap : comparison.gaps) {
    gaps.push_back({gap.checkpoint, gap.token_idx, gap.evidence == Evidence::kExcused, gap.reason});
  }
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const PageGap& a, const PageGap& b) { return a.token_idx < b.token_idx; });
  return gaps;
}

std::vector<int64_t> distinct_tokens(const Comparison& comparison) {
  std::vector<int64_t> tokens;
  for (const RecordResult& result : comparison.results) tokens.push_back(result.token_idx);
  for (const Gap& gap : comparison.gaps) tokens.push_back(gap.token_idx);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

// NaN is worse than any number.
bool is_worse(const RecordResult& a, const RecordResult& b) {
  if (a.failed() != b.failed()) return a.failed();
  return !std::isnan(b.metrics.rel_l2) && !(a.metrics.rel_l2 <= b.metrics.rel_l2);
}

// Neighbouring tokens put together so that each checkpoint's fit the page.
class Bins {
 public:
  Bins(const Comparison& comparison, const std::vector<CheckpointGroup>& groups)
      : n_groups_(std::ssize(groups)),
        tokens_(distinct_tokens(comparison)),
        n_bins_(std::min(std::ssize(tokens_), kMaxPageRecords / n_groups_)),
        row_(comparison.checkpoints.size(), -1) {
    for (int64_t i = 0; i < n_groups_; ++i) {
      row_[static_cast<size_t>(groups[static_cast<size_t>(i)].checkpoint)] = i;
    }
  }

  // The first and the last token of each.
  std::vector<std::pair<int64_t, int64_t>> ranges() const {
    std::vector<std::pair<int64_t, int64_t>> ranges(static_cast<size_t>(n_bins_));
    std::vector<bool> begun(static_cast<size_t>(n_bins_));
    for (const int64_t token : tokens_) {
      const auto bin = static_cast<size_t>(bin_of(token));
      if (!begun[bin]) ranges[bin].first = token;
      begun[bin] = true;
      ranges[bin].second = token;
    }
    return ranges;
  }

  size_t cells() const { return static_cast<size_t>(n_bins_ * n_groups_); }

  // The place of a checkpoint at a token among all cells, bin by bin; -1 where it is not shown.
  int64_t cell_of(int32_t checkpoint, int64_t token) const {
    const int64_t group = row_[static_cast<size_t>(checkpoint)];
    return group < 0 ? -1 : bin_of(token) * n_groups_ + group;
  }

 private:
  int64_t bin_of(int64_t token) const {
    const auto place = std::lower_bound(tokens_.begin(), tokens_.end(), token) - tokens_.begin();
    return place * n_bins_ / std::ssize(tokens_);
  }

  int64_t n_groups_;
  std::vector<int64_t> tokens_;
  int64_t n_bins_;
  std::vector<int64_t> row_;  // of each checkpoint, its place in `groups`
};

// The worst record of each cell.
std::vector<const RecordResult*> worst_records(const Comparison& comparison, const Bins& bins) {
  std::vector<const RecordResult*> worst(bins.cells());
  for (const RecordResult& result : comparison.results) {
    const int64_t cell = bins.cell_of(result.checkpoint, result.token_idx);
    if (cell < 0 || !has_figures(result)) continue;
    const RecordResult*& held = worst[static_cast<size_t>(cell)];
    if (held == nullptr || is_worse(result, *held)) held = &result;
  }
  std::erase(worst, nullptr);
  return worst;
}

// The gaps of each cell as one, and those that are excused as another.
std::vector<PageGap> joined_gaps(const std::vector<PageGap>& gaps, const Bins& bins) {
  std::map<std::pair<int64_t, bool>, PageGap> joined;
  for (const PageGap& gap : gaps) {
    const int64_t cell = bins.cell_of(gap.checkpoint, gap.token_idx);
    if (cell < 0) continue;
    const auto [held, is_first] = joined.try_emplace({cell, gap.excused}, gap);
    if (!is_first) ++held->second.records;
  }
  std::vector<PageGap> kept;
  for (const auto& [cell, gap] : joined) kept.push_back(gap);
  return kept;
}

}  // namespace

PageRecords page_records(const Comparison& comparison) {
  PageRecords kept;
  kept.groups = group_by_checkpoint(comparison);
  kept.gaps = all_gaps(comparison);
  if (std::ssize(comparison.results) + std::ssize(comparison.gaps) <= kMaxPageRecords) {
    for (const RecordResult& result : comparison.results) {
      if (has_figures(result)) kept.records.push_back(&result);
    }
    return kept;
  }
  if (std::ssize(kept.groups) > kMaxPageRecords) {  // those that fail stay, then those not shown
    const auto rank = [](const CheckpointGroup& group) {
      return !group.failures.empty() ? 0 : group.unproven > 0 ? 1 : 2;
    };
    std::stable_sort(
        kept.groups.begin(), kept.groups.end(),
        [&](const CheckpointGroup& a, const CheckpointGroup& b) { return rank(a) < rank(b); });
    kept.groups.resize(static_cast<size_t>(kMaxPageRecords));
  }
  const Bins bins(comparison, kept.groups);
  kept.bins = bins.ranges();
  kept.records = worst_records(comparison, bins);
  kept.gaps = joined_gaps(kept.gaps, bins);
  return kept;
}

}  // namespace assay
