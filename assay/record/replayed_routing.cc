#include "assay/record/replayed_routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "assay/compare/log_index.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kReplayHint =
    "log the reference with its layer_*_experts, as --checkpoints ops does, and --values all";

std::vector<int32_t> ids_of(const Record& record, const Routing& routing,
                            const std::string& where) {
  const std::string what = fmt::format("'{}' at token {}", record.checkpoint, record.token_idx);
  if (record.n != routing.n_used) {
    throw Error(fmt::format("{} has {}, the model uses {} a token", what,
                            count_of(record.n, "expert"), routing.n_used),
                where, "give the log of this model");
  }
  if (!record.has_all_values()) {
    throw Error(fmt::format("{} holds {} of its {} ids", what, record.values.size(), record.n),
                where, kReplayHint);
  }
  std::vector<int32_t> ids;
  for (const float value : record.values) {
    const bool known = value >= 0 && value < static_cast<float>(routing.n_experts);
    ids.push_back(known ? static_cast<int32_t>(value) : -1);
    if (!known || static_cast<float>(ids.back()) != value) {
      throw Error(fmt::format("{} names the expert {}, the model has 0 to {}", what, value,
                              routing.n_experts - 1),
                  where, "give the log of this model");
    }
  }
  if (std::set<int32_t>(ids.begin(), ids.end()).size() != ids.size()) {
    throw Error(fmt::format("{} names an expert twice", what), where,
                "log the ids of the experts that a token uses, each once");
  }
  return ids;
}

}  // namespace

ReplayedRouting::ReplayedRouting(const std::string& path, const ModelConfig& config) : path_(path) {
  for (int layer = 0; layer < config.n_layers; ++layer) {
    if (find_spec(config.layer(layer).ops, Checkpoint::kExperts) != nullptr) ids_[layer] = {};
  }
  if (ids_.empty()) {
    throw Error(fmt::format("the model {} has no experts to choose", printable(config.name, 60)),
                "--replay-routing", "leave it out");
  }
  const LogIndex log(path);
  if (log.header()) tokens_ = log.header()->tokens;
  IndexLoader loader = log.loader();
  std::map<int32_t, int> layer_of;  // of a checkpoint in the log
  for (const auto& [layer, choices] : ids_) {
    layer_of[log.names().find(checkpoint_name(Checkpoint::kExperts, layer))] = layer;
  }
  for (const IndexEntry& entry : log.entries()) {
    const auto layer = layer_of.find(entry.checkpoint);
    if (layer == layer_of.end()) continue;
    ids_[layer->second][entry.token_idx] =
        ids_of(log.load(entry, loader), config.routing, log.where(entry));
  }
}

void ReplayedRouting::check_tokens(std::span<const int32_t> tokens) const {
  const size_t count = std::min(tokens.size(), tokens_.size());
  for (size_t i = 0; i < count; ++i) {
    if (tokens_[i] == tokens[i]) continue;
    throw Error(fmt::format("its header has token {} at position {}, where this run has {}",
                            tokens_[i], i, tokens[i]),
                path_, "replay the routing of the same tokens; --follow evaluates a log's own");
  }
}

void ReplayedRouting::check_positions(int64_t first, int64_t count) const {
  for (int64_t position = first; position < first + count; ++position) {
    for (const auto& [layer, choices] : ids_) {
      if (choices.contains(position)) continue;
      throw Error(fmt::format("it has no '{}' at token {}",
                              checkpoint_name(Checkpoint::kExperts, layer), position),
                  path_,
                  choices.empty() ? std::string(kReplayHint)
                                  : std::string("evaluate no other tokens than the log has, as "
                                                "--follow or a smaller -n does"));
    }
  }
}

void ReplayedRouting::choose(int layer, int64_t first_token_idx, int64_t n_tokens, int32_t* ids) {
  const auto& choices = ids_.at(layer);
  for (int64_t t = 0; t < n_tokens; ++t) {
    ids = std::ranges::copy(choices.at(first_token_idx + t), ids).out;
  }
}

}  // namespace assay
