#include "assay/causes/lacking_records.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "assay/causes/search_places.h"
#include "assay/causes/stages.h"

namespace assay::causes {
namespace {

using mistakes::Network;
using mistakes::Op;

// The positions of each op that is logged.
std::map<Op, std::set<int64_t>> logged_positions(const LogIndex& log, int64_t first) {
  std::vector<std::optional<Op>> ops;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    ops.push_back(find_op(log.names().name(id)));
  }
  std::map<Op, std::set<int64_t>> logged;
  for (const IndexEntry& entry : log.entries()) {
    const std::optional<Op>& op = ops[static_cast<size_t>(entry.checkpoint)];
    if (op && entry.token_idx >= first) logged[*op].insert(entry.token_idx - first);
  }
  return logged;
}

// Those that a record or the header names, and the first of those between.
std::set<int64_t> positions_of(const std::map<Op, std::set<int64_t>>& logged, int64_t n_prompt) {
  std::set<int64_t> named;
  for (int64_t at = 0; at < n_prompt; ++at) named.insert(at);
  for (const auto& [op, positions] : logged) named.insert(positions.begin(), positions.end());
  std::set<int64_t> all = named;
  for (const int64_t at : named) {
    if (at != *named.rbegin()) all.insert(at + 1);
  }
  return all;
}

}  // namespace

std::vector<LackingRecord> lacking_records(const Network& network, const LogIndex& log,
                                           int64_t first, const Selection& demanded) {
  const std::map<Op, std::set<int64_t>> logged = logged_positions(log, first);
  std::set<Checkpoint> kinds;
  for (const auto& [op, positions] : logged) kinds.insert(op.checkpoint);
  const int64_t n_prompt = log.header() ? std::ssize(log.header()->tokens) : 0;
  const std::set<int64_t> positions = positions_of(logged, n_prompt);
  const std::set<int64_t> none;
  std::vector<LackingRecord> lacking;
  const auto stages = stages_of(network);
  for (const std::vector<Op>& stage : stages) {
    for (const Op op : stage) {
      const bool is_named = demanded.is_of_checkpoints() && demanded.has_checkpoint(op.name());
      if (!is_named && !kinds.contains(op.checkpoint)) continue;
      const auto found = logged.find(op);
      const std::set<int64_t>& own = found == logged.end() ? none : found->second;
      int64_t from = 0;
      if (&stage == &stages.back()) {
        // Without a header the first that is logged may be the prompt's last.
        const int64_t last_of_prompt = n_prompt > 0 ? n_prompt - 1 : own.empty() ? 0 : *own.begin();
        if (own.empty() || *own.begin() >= last_of_prompt) from = last_of_prompt;
      }
      for (const int64_t at : positions) {
        if (at >= from && !own.contains(at)) lacking.push_back({op, at});
      }
    }
  }
  return lacking;
}

bool is_of_a_set(const LogIndex& log) {
  std::set<Checkpoint> kinds;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    if (const std::optional<Op> op = find_op(log.names().name(id))) kinds.insert(op->checkpoint);
  }
  static const std::set<Checkpoint> kLogits = {Checkpoint::kLogits};
  static const std::set<Checkpoint> kLayers = {Checkpoint::kEmbedding, Checkpoint::kOutput,
                                               Checkpoint::kLogits};
  return kinds == kLogits || kinds == kLayers;
}

}  // namespace assay::causes
