#include "assay/causes/own_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/causes/lacking_records.h"
#include "assay/causes/model_fit.h"
#include "assay/causes/own_outputs.h"
#include "assay/causes/search_places.h"
#include "assay/compare/evidence.h"
#include "assay/compare/input_tokens.h"
#include "assay/compare/log_index.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/merge_sequences.h"
#include "assay/compare/pairing.h"
#include "assay/compare/verdict.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace causes {
namespace {

using mistakes::Network;
using mistakes::Op;

// Of a sequence.
class OwnErrorJudge {
 public:
  OwnErrorJudge(const Network& network, const CompareOptions& options,
                const OwnErrorRequest& request, Comparison& comparison)
      : network_(network), options_(options), request_(request), comparison_(comparison) {
    own_.limit = request.limit;
    for (size_t i = 0; i < comparison.checkpoints.size(); ++i) {
      ids_[comparison.checkpoints[i].name] = static_cast<int32_t>(i);
    }
    for (size_t i = 0; i < comparison.results.size(); ++i) {
      const RecordResult& result = comparison.results[i];
      results_[{result.checkpoint, result.token_idx}] = i;
    }
    for (size_t i = 0; i < comparison.gaps.size(); ++i) {
      const Gap& gap = comparison.gaps[i];
      gaps_[{gap.checkpoint, gap.token_idx}] = i;
      own_.excused += is_excused(gap) ? 1 : 0;
    }
    is_gap_dropped_.assign(comparison.gaps.size(), false);
    is_result_dropped_.assign(comparison.results.size(), false);
  }

  void judge() {
    // A log that begins with other tokens counts its positions as it is.
    const int64_t offset = comparison_.alignment.offset;
    const LogIndex& log = *comparison_.got_log;
    const bool has_own_positions =
        have_other_context(*comparison_.ref_log, log, comparison_.alignment, 0);
    const int64_t first = has_own_positions ? 0 : offset;
    const OwnOutputRequest request{.first = first,
                                   .limit = request_.limit,
                                   .n_threads = options_.n_threads,
                                   .progress = request_.progress};
    for (const OwnOutput& output : own_outputs(network_, log, request)) take(output);
    if (request_.is_alone) {
      demand(lacking_records(network_, log, first, wanted(log)), first);
    }
    drop(is_result_dropped_, comparison_.results);
    drop(is_gap_dropped_, comparison_.gaps);
    sort(comparison_.results);
    sort(comparison_.gaps);
    judge_comparison(comparison_);
    comparison_.own_errors = std::move(own_);
  }

 private:
  using Key = std::pair<int32_t, int64_t>;  // checkpoint, token of the reference

  static bool is_excused(const Gap& gap) {
    return gap.reason == kAfterSplit || gap.reason == kAfterFlip;
  }

  // What the comparison says of a record of the judged log: under its name, or that of the
  // log-probabilities or logits that it was compared with.
  template <typename Places>
  std::optional<size_t> find(const Places& places, const std::string& name, int64_t token) const {
    for (const std::string& known : {name, sibling_of(name)}) {
      const auto id = ids_.find(known);
      if (id == ids_.end()) continue;
      const auto place = places.find(Key{id->second, token});
      if (place != places.end()) return place->second;
    }
    return std::nullopt;
  }

  void take(const OwnOutput& output) {
    const LogIndex& log = *comparison_.got_log;
    const IndexEntry& entry = log.entry(output.entry);
    const std::string& name = log.names().name(entry.checkpoint);
    int64_t token = 0;
    if (__builtin_sub_overflow(entry.token_idx, comparison_.alignment.offset, &token)) return;
    if (!options_.selection.has_checkpoint(name) || !options_.selection.has_token(token)) return;
    const int32_t id = ids_.at(name);
    if (!output.not_held.empty()) {
      ++own_.not_held;
      const CheckpointName& checkpoint = comparison_.checkpoints[static_cast<size_t>(id)];
      if (!own_.first_not_held || comes_before(id, token, *own_.first_not_held)) {
        own_.first_not_held = {checkpoint, token, std::string(output.not_held)};
      }
      if (request_.is_alone) leave_unproven(name, id, token, output.not_held);
      return;
    }
    const OwnErrors::Place place{comparison_.checkpoints[static_cast<size_t>(id)], token,
                                 output.error};
    ++own_.held;
    const auto gap = find(gaps_, name, token);
    if (gap && is_excused(comparison_.gaps[*gap])) ++own_.excused_held;
    if (!own_.largest || is_larger(place, *own_.largest)) own_.largest = place;
    const auto result = find(results_, name, token);
    if (result) comparison_.results[*result].own_error = output.error;
    if (output.error <= request_.limit) {
      if (output.is_unchosen) doubt_token(name, id, token);
      return;
    }
    ++own_.failed;
    if (!own_.first_failed || comes_before(id, token, *own_.first_failed)) {
      own_.first_failed = place;
    }
    if (result) {
      fail(output, comparison_.results[*result]);
    } else {
      add_failure(output, gap, name, token);
    }
  }

  // A reference shows whether it is the right one; after a split nothing does.
  void doubt_token(const std::string& name, int32_t id, int64_t token) {
    if (request_.is_alone) return leave_unproven(name, id, token, kUnchosen);
    if (std::exchange(is_token_doubted_, true)) return;
    comparison_.warnings.push_back(fmt::format("{}: at token {} {}: {}", comparison_.got_path,
                                               token + comparison_.alignment.offset,
                                               printable(name, 80), kUnchosen));
  }

  void fail(const OwnOutput& output, RecordResult& result) const {
    if (!result.failed()) result.reason = output.reason;
    fail_record(Metric::kOwnError, output.error, request_.limit, result);
  }

  // Of a record that the comparison excused, or that the reference does not have.
  void add_failure(const OwnOutput& output, std::optional<size_t> gap, const std::string& name,
                   int64_t token) {
    RecordResult result = failed_result(Metric::kOwnError, output.error, request_.limit);
    result.metrics.n = network_.width(*find_op(name));
    result.checkpoint = gap ? comparison_.gaps[*gap].checkpoint : ids_.at(name);
    result.token_idx = token;
    result.own_error = output.error;
    result.of_ref = gap.has_value();
    result.reason = output.reason;
    if (gap) {
      is_gap_dropped_[*gap] = true;
      const bool is_after_split = comparison_.gaps[*gap].reason == kAfterSplit;
      if (is_after_split && comparison_.split) --comparison_.split->left_out;
    }
    comparison_.results.push_back(result);
  }

  // It was compared with itself alone.
  void leave_unproven(const std::string& name, int32_t id, int64_t token, std::string_view reason) {
    const auto found = find(results_, name, token);
    if (found && comparison_.results[*found].failed()) return;
    if (found) is_result_dropped_[*found] = true;
    comparison_.gaps.push_back({id, token, assay::Evidence::kUnproven, reason});
  }

  void add_lacking(const std::string& name, int32_t id, int64_t token) {
    const bool allowed = is_allowed_missing(name, options_);
    comparison_.gaps.push_back({id, token,
                                allowed ? assay::Evidence::kExcused : assay::Evidence::kUnproven,
                                allowed ? kAllowedMissing : kLacking});
  }

  void demand(const std::vector<LackingRecord>& lacking, int64_t first) {
    for (const LackingRecord& record : lacking) {
      const std::string name = record.op.name();
      const int64_t token = record.position + first - comparison_.alignment.offset;
      if (!options_.selection.has_checkpoint(name) || !options_.selection.has_token(token))
        continue;
      const auto [id, added] = ids_.try_emplace(name, std::ssize(comparison_.checkpoints));
      if (added) comparison_.checkpoints.push_back(parse_checkpoint_name(name));
      add_lacking(name, id->second, token);
    }
    order_anew();
  }

  // Which checkpoints the log was to have: what is asked for, else what its header says, else all
  // that the model computes, or those of a set of which it has all kinds and nothing else. A header
  // that does not name all that is logged is not believed.
  Selection wanted(const LogIndex& log) const {
    if (options_.selection.is_of_checkpoints()) return options_.selection;
    Selection stated;
    if (log.header() && !log.header()->checkpoints.empty()) {
      stated.set_checkpoints(log.header()->checkpoints, log.path() + ": 'checkpoints'");
      if (covers(stated, log)) return stated;
    }
    Selection all;
    if (stated.is_of_checkpoints() || !is_of_a_set(log))
      all.set_checkpoints("ops", "--checkpoints");
    return all;
  }

  static bool covers(const Selection& stated, const LogIndex& log) {
    for (int32_t id = 0; id < log.names().size(); ++id) {
      const std::string& name = log.names().name(id);
      if (find_op(name) && !stated.has_checkpoint(name)) return false;
    }
    return true;
  }

  // With the checkpoints that have been added: Assay knows their place.
  void order_anew() {
    const size_t known = comparison_.order.size();
    if (known == comparison_.checkpoints.size()) return;
    std::vector<size_t> ids;
    for (size_t i = 0; i < comparison_.checkpoints.size(); ++i) ids.push_back(i);
    std::stable_sort(
        ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(known),
        [&](size_t a, size_t b) { return comparison_.order[a] < comparison_.order[b]; });
    std::vector<CheckpointName> names;
    for (const size_t id : ids) names.push_back(comparison_.checkpoints[id]);
    const std::vector<int32_t> ranks = order_checkpoints(names);
    comparison_.order.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) comparison_.order[ids[i]] = ranks[i];
  }

  template <typename Place>
  bool comes_before(int32_t id, int64_t token, const Place& place) const {
    const auto order = [&](int32_t checkpoint) {
      return comparison_.order[static_cast<size_t>(checkpoint)];
    };
    return std::pair(token, order(id)) <
           std::pair(place.token_idx, order(ids_.at(place.checkpoint.name)));
  }

  template <typename Record>
  static void drop(const std::vector<bool>& dropped, std::vector<Record>& records) {
    std::vector<Record> left;
    for (size_t i = 0; i < records.size(); ++i) {
      if (i >= dropped.size() || !dropped[i]) left.push_back(std::move(records[i]));
    }
    records = std::move(left);
  }

  template <typename Record>
  void sort(std::vector<Record>& records) const {
    const auto key = [&](const Record& record) {
      return std::pair(record.token_idx, comparison_.order[static_cast<size_t>(record.checkpoint)]);
    };
    std::stable_sort(records.begin(), records.end(),
                     [&](const Record& a, const Record& b) { return key(a) < key(b); });
  }

  const Network& network_;
  const CompareOptions& options_;
  const OwnErrorRequest& request_;
  Comparison& comparison_;
  OwnErrors own_;
  std::map<std::string, int32_t> ids_;  // of comparison_.checkpoints
  std::map<Key, size_t> results_;
  std::map<Key, size_t> gaps_;
  // Of those that were there.
  std::vector<bool> is_result_dropped_;
  std::vector<bool> is_gap_dropped_;
  bool is_token_doubted_ = false;
};

Network network_for(const Model& model, const Comparison& comparison) {
  const LogIndex& log = *comparison.got_log;
  int64_t positions = log.header() ? std::ssize(log.header()->tokens) : 0;
  for (const RecordResult& result : comparison.results) {
    positions = std::max(positions, result.token_idx + 1);
  }
  Network network = Network::of_model(model, positions);
  check_model(network, comparison);
  return network;
}

void check_any_held(const OwnErrors& own, const std::string& path) {
  if (own.held > 0) return;
  std::string first = "it has none";
  if (own.first_not_held) {
    first = fmt::format("of the first, {} at token {}, {}",
                        printable(own.first_not_held->checkpoint.title(), 80),
                        own.first_not_held->token_idx, own.first_not_held->reason);
  }
  throw Error("no record can be held to the model by its own error: " + first, path,
              "log it with --checkpoints ops --values all, or --checkpoints layers --values all");
}

// Of a log alone its header says which sequences it is to have.
void check_all_logged(const LogIndex& log) {
  const std::vector<std::string>& unlogged = log.unlogged_sequences();
  if (unlogged.empty()) return;
  throw Error(fmt::format("has no record of {} that its header lists, the first '{}'",
                          count_of(unlogged.size(), "sequence"), printable(unlogged.front(), 40)),
              log.path(), "log each sequence, or list those in the header that are logged");
}

}  // namespace
}  // namespace causes

void judge_own_errors(const Model& model, const CompareOptions& options,
                      const OwnErrorRequest& request, Comparison& comparison) {
  const auto judge = [&](Comparison& sequence) {
    const mistakes::Network network = causes::network_for(model, sequence);
    causes::OwnErrorJudge(network, options, request, sequence).judge();
  };
  if (comparison.sequences.empty()) {
    judge(comparison);
  } else {
    for (Comparison& sequence : comparison.sequences) judge(sequence);
    comparison = merge_sequences(std::move(comparison.sequences));
  }
  if (comparison.failed > 0) return;  // whatever could not be held
  causes::check_any_held(*comparison.own_errors, comparison.got_log->path());
  if (request.is_alone) causes::check_all_logged(*comparison.got_log);
}

}  // namespace assay
