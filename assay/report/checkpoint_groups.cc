#include "assay/report/checkpoint_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/compare/evidence.h"
#include "assay/report/failure_text.h"
#include "base/count_of.h"

namespace assay {

namespace {

void add_unproven(int64_t token_idx, std::string_view reason, CheckpointGroup& group) {
  group.after_split += reason == kAfterSplit ? 1 : 0;
  if (group.unproven++ > 0 && group.first_unproven <= token_idx) return;
  group.first_unproven = token_idx;
  group.reason = reason;
}

void add_result(const RecordResult& result, CheckpointGroup& group) {
  ++group.records;
  if (result.failed()) group.failures.push_back(&result);
  if (result.evidence == Evidence::kUnproven) {
    add_unproven(result.token_idx, unproven_text(result), group);
  }
  group.zeros += result.status == Verdict::kInconclusive ? 1 : 0;
  const RecordResult* held = group.worst;
  const bool worse =
      held == nullptr || (!held->failed() && result.failed()) ||
      (held->failed() == result.failed() && !(result.metrics.rel_l2 <= held->metrics.rel_l2));
  if (worse) group.worst = &result;
}

}  // namespace

std::vector<CheckpointGroup> group_by_checkpoint(const Comparison& comparison) {
  std::vector<CheckpointGroup> groups(comparison.checkpoints.size());
  const auto group_of = [&](int32_t id) -> CheckpointGroup& {
    groups[static_cast<size_t>(id)].checkpoint = id;
    return groups[static_cast<size_t>(id)];
  };
  for (const RecordResult& result : comparison.results) {
    add_result(result, group_of(result.checkpoint));
  }
  for (const Gap& gap : comparison.gaps) {
    CheckpointGroup& group = group_of(gap.checkpoint);
    if (gap.evidence == Evidence::kExcused) {
      ++group.excused;
    } else {
      add_unproven(gap.token_idx, gap.reason, group);
    }
  }
  std::erase_if(groups, [](const CheckpointGroup& group) {
    return group.records + group.unproven + group.excused == 0;
  });
  std::sort(groups.begin(), groups.end(), [&](const CheckpointGroup& a, const CheckpointGroup& b) {
    return comparison.order[static_cast<size_t>(a.checkpoint)] <
           comparison.order[static_cast<size_t>(b.checkpoint)];
  });
  return groups;
}

bool is_inconclusive(const Comparison& comparison, const CheckpointGroup& group) {
  return comparison.verdict == Verdict::kInconclusive && group.zeros > 0 &&
         group.zeros == group.records;
}

std::string unproven_tokens(const CheckpointGroup& group) {
  return fmt::format("unproven at {}, the first {}: {}", count_of(group.unproven, "token"),
                     group.first_unproven, group.reason);
}

std::string failing_tokens(const CheckpointGroup& group) {
  return fmt::format("{} of {} {}", group.failures.size(), count_of(group.records, "token"),
                     plural(group.records == 1, "fails", "fail"));
}

std::vector<CheckpointGroup> failing_groups(const Comparison& comparison) {
  std::vector<CheckpointGroup> groups = group_by_checkpoint(comparison);
  std::erase_if(groups, [](const CheckpointGroup& group) { return group.failures.empty(); });
  // The first divergence is at the earliest token, and there the first of the network's order,
  // which the groups are in already.
  std::stable_sort(groups.begin(), groups.end(),
                   [](const CheckpointGroup& a, const CheckpointGroup& b) {
                     return a.failures.front()->token_idx < b.failures.front()->token_idx;
                   });
  return groups;
}

}  // namespace assay
