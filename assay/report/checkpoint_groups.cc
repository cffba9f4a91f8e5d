#include "assay/report/checkpoint_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/count_of.h"

namespace assay {

std::vector<CheckpointGroup> group_by_checkpoint(const Comparison& comparison) {
  std::vector<CheckpointGroup> of_id(comparison.checkpoints.size());
  std::vector<const RecordResult*> unjudged(of_id.size(), nullptr);
  for (const RecordResult& result : comparison.results) {
    CheckpointGroup& group = of_id[static_cast<size_t>(result.checkpoint)];
    group.checkpoint = result.checkpoint;
    ++group.records;
    if (!result.pass) group.failures.push_back(&result);
    if (result.status == Verdict::kInconclusive) {
      ++group.inconclusive;
      const RecordResult*& first = unjudged[static_cast<size_t>(result.checkpoint)];
      if (first == nullptr || (first->held && !result.held)) first = &result;
    }
    const RecordResult* held = group.worst;
    const bool worse =
        held == nullptr || (held->pass && !result.pass) ||
        (held->pass == result.pass && !(result.metrics.rel_l2 <= held->metrics.rel_l2));
    if (worse) group.worst = &result;
  }
  std::vector<std::pair<ComputeOrder, int32_t>> order;
  for (CheckpointGroup& group : of_id) {
    if (group.records == 0) continue;
    const RecordResult* first = unjudged[static_cast<size_t>(group.checkpoint)];
    const bool decides = group.inconclusive == group.records ||
                         (first != nullptr && !first->held &&
                          name_of(comparison, group.checkpoint).name == "logits");
    if (group.failures.empty() && decides) group.unproved = first;
    order.emplace_back(compute_order(name_of(comparison, group.checkpoint), group.checkpoint),
                       group.checkpoint);
  }
  std::sort(order.begin(), order.end());
  std::vector<CheckpointGroup> groups;
  groups.reserve(order.size());
  for (const auto& [key, id] : order) groups.push_back(std::move(of_id[static_cast<size_t>(id)]));
  return groups;
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
