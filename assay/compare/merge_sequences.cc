#include "assay/compare/merge_sequences.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "assay/compare/evidence.h"

namespace assay {
namespace {

// The place of each name as the network computes, over the checkpoints of all sequences.
std::map<std::string, int64_t> order_of_all(const std::vector<Comparison>& sequences) {
  std::map<std::string, int32_t> places;
  std::vector<ArrivedCheckpoint> arrived;
  for (const Comparison& sequence : sequences) {
    std::vector<size_t> ids(sequence.checkpoints.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::sort(ids, {}, [&](size_t id) { return sequence.order[id]; });
    int32_t before = -1;
    for (const size_t id : ids) {
      const CheckpointName& name = sequence.checkpoints[id];
      const auto [place, added] =
          places.try_emplace(name.name, static_cast<int32_t>(arrived.size()));
      if (added) arrived.push_back({name, before});
      before = place->second;
    }
  }
  const std::vector<int32_t> ranks = order_checkpoints(arrived);
  std::map<std::string, int64_t> order;
  for (const auto& [name, place] : places) order[name] = ranks[static_cast<size_t>(place)];
  return order;
}

class Merger {
 public:
  explicit Merger(const std::vector<Comparison>& sequences)
      : sequences_(sequences), order_(order_of_all(sequences)) {}

  Comparison merge() {
    const size_t leading = leading_sequence();
    const Comparison& first = sequences_[leading];
    merged_.ref_path = first.ref_path;
    merged_.got_path = first.got_path;
    merged_.whole_required = first.whole_required;
    merged_.built_in_tolerance = first.built_in_tolerance;
    merged_.alignment = first.alignment;
    merged_.split = first.split;
    merged_.drift = first.drift;
    merged_.ref_log = first.ref_log;
    merged_.got_log = first.got_log;
    merged_.leading = leading;
    for (size_t i = 0; i < sequences_.size(); ++i) add(i);
    sort(merged_.results);
    sort(merged_.gaps);
    sort(merged_.quarantine);
    sort(merged_.flips);
    set_first_divergence();
    for (size_t i = 0; i < sequences_.size(); ++i) add_own_errors(i);
    merged_.evidence = count_evidence(merged_);
    set_verdict();
    return std::move(merged_);
  }

 private:
  void add(size_t sequence) {
    const Comparison& part = sequences_[sequence];
    const auto base = static_cast<int32_t>(merged_.checkpoints.size());
    std::string label = part.ref_sequence.empty() ? part.got_sequence : part.ref_sequence;
    // The other log's name alone may be that of another sequence of the reference.
    if (!named_.insert(label).second) label += " as " + part.got_sequence;
    labels_.push_back(label);
    for (const CheckpointName& name : part.checkpoints) {
      merged_.checkpoints.push_back(name);
      merged_.checkpoints.back().sequence = label;
      merged_.order.push_back(order_.at(name.name) * std::ssize(sequences_) +
                              static_cast<int64_t>(sequence));
    }
    const auto team = [&](int32_t id) {
      return id < 0 ? -1 : team_id(part.teams[static_cast<size_t>(id)]);
    };
    for (RecordResult result : part.results) {
      result.checkpoint += base;
      result.ref_team = team(result.ref_team);
      result.got_team = team(result.got_team);
      merged_.results.push_back(std::move(result));
    }
    append(part.gaps, base, merged_.gaps);
    append(part.flips, base, merged_.flips);
    append(part.quarantine, base, merged_.quarantine);
    merged_.compared += part.compared;
    merged_.failed += part.failed;
    merged_.quarantined += part.quarantined;
    for (const auto& [reason, count] : part.quarantined_by_reason) {
      merged_.quarantined_by_reason[reason] += count;
    }
    merged_.unmatched_ref += part.unmatched_ref;
    merged_.unmatched_got += part.unmatched_got;
    merged_.argmax_agree += part.argmax_agree;
    merged_.argmax_total += part.argmax_total;
    for (const std::string& warning : part.warnings) {
      if (warned_.insert(warning).second) merged_.warnings.push_back(warning);
    }
  }

  void add_own_errors(size_t sequence) {
    if (!sequences_[sequence].own_errors) return;
    const OwnErrors& part = *sequences_[sequence].own_errors;
    if (!merged_.own_errors) merged_.own_errors.emplace();
    OwnErrors& all = *merged_.own_errors;
    all.limit = part.limit;
    all.held += part.held;
    all.failed += part.failed;
    all.not_held += part.not_held;
    all.excused += part.excused;
    all.excused_held += part.excused_held;
    const auto key = [&](const auto& place) {
      return std::pair(place->token_idx, order_.at(place->checkpoint.name));
    };
    const auto take = [&](auto& place, auto& of_all, bool is_better) {
      if (!place || (of_all && !is_better)) return;
      of_all = place;
      of_all->checkpoint.sequence = labels_[sequence];
    };
    const auto comes_first = [&](const auto& place, const auto& of_all) {
      return place && of_all && key(place) < key(of_all);
    };
    take(part.largest, all.largest,
         part.largest && all.largest && is_larger(*part.largest, *all.largest));
    take(part.first_failed, all.first_failed, comes_first(part.first_failed, all.first_failed));
    take(part.first_not_held, all.first_not_held,
         comes_first(part.first_not_held, all.first_not_held));
  }

  template <typename Item>
  static void append(const std::vector<Item>& items, int32_t base, std::vector<Item>& all) {
    for (Item item : items) {
      item.checkpoint += base;
      all.push_back(std::move(item));
    }
  }

  template <typename Item>
  void sort(std::vector<Item>& items) const {
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return std::pair(a.token_idx, merged_.order[static_cast<size_t>(a.checkpoint)]) <
             std::pair(b.token_idx, merged_.order[static_cast<size_t>(b.checkpoint)]);
    });
  }

  int32_t team_id(const std::string& name) {
    const auto [place, added] =
        team_ids_.try_emplace(name, static_cast<int32_t>(merged_.teams.size()));
    if (added) merged_.teams.push_back(name);
    return place->second;
  }

  size_t leading_sequence() const {
    size_t leading = 0;
    const auto key = [&](size_t i) {
      const auto& first = sequences_[i].first_divergence;
      return first ? std::tuple(0, first->token_idx, order_.at(first->checkpoint.name))
                   : std::tuple(1, int64_t{0}, int64_t{0});
    };
    for (size_t i = 1; i < sequences_.size(); ++i) {
      // One that has no partner has nothing to look at.
      const bool alone = !sequences_[leading].ref_log || sequences_[leading].results.empty();
      if (key(i) < key(leading) || (alone && !sequences_[i].results.empty())) leading = i;
    }
    return leading;
  }

  void set_first_divergence() {
    const auto first = std::ranges::find_if(merged_.results, &RecordResult::failed);
    if (first == merged_.results.end()) return;
    const auto sequence = static_cast<size_t>(
        merged_.order[static_cast<size_t>(first->checkpoint)] % std::ssize(sequences_));
    merged_.first_divergence = sequences_[sequence].first_divergence;
    merged_.first_divergence->checkpoint =
        merged_.checkpoints[static_cast<size_t>(first->checkpoint)];
  }

  void set_verdict() {
    // Nothing of the reference is judged where it lacks the sequence, or its gaps are accepted.
    const auto is_judged = [](const Comparison& sequence) {
      return sequence.compared > 0 || sequence.failed > 0 || sequence.evidence.unproven > 0;
    };
    merged_.pass = true;
    merged_.verdict = Verdict::kMatch;
    for (const Comparison& sequence : sequences_) {
      if (!is_judged(sequence)) continue;
      merged_.pass = merged_.pass && sequence.pass;
      const bool counts = merged_.failed == 0 || sequence.failed > 0;
      if (counts) merged_.verdict = std::max(merged_.verdict, sequence.verdict);
    }
  }

  const std::vector<Comparison>& sequences_;
  std::map<std::string, int64_t> order_;
  std::set<std::string> named_;      // sequences that have been added
  std::vector<std::string> labels_;  // of each
  std::set<std::string> warned_;     // what merged_.warnings has
  std::map<std::string, int32_t> team_ids_;
  Comparison merged_;
};

}  // namespace

Comparison merge_sequences(std::vector<Comparison> sequences) {
  Comparison merged = Merger(sequences).merge();
  merged.sequences = std::move(sequences);
  return merged;
}

}  // namespace assay
