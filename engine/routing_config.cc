#include "engine/routing_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr int64_t kMaxExperts = 65536;
constexpr int64_t kMaxExpertWidth = int64_t{1} << 20;

// llama.cpp ignores what a file says of its experts where all models of the architecture do the
// same.
void reject_other_routing(const ConfigKeys& keys, const Architecture& architecture) {
  using namespace hyperparameter;
  if (architecture.routing_keys == RoutingKeys::kAll) return;
  keys.reject_unless(kExpertGating, static_cast<double>(architecture.gating) + 1.0, kNotDone);
  keys.reject_unless(kExpertWeightsScale, 1.0, kNotDone);
  keys.reject_unless(kExpertGroupCount, 1.0, kNotDone);
  if (architecture.routing_keys == RoutingKeys::kNormalised) return;
  const bool normalised = keys.flag(kExpertWeightsNorm, architecture.normalise_weights);
  if (normalised != architecture.normalise_weights) {
    keys.reject(kExpertWeightsNorm, fmt::format("is {}", normalised), kNotDone);
  }
}

}  // namespace

void read_routing(const ConfigKeys& keys, ModelConfig& config) {
  using namespace hyperparameter;
  if (keys.integer(kExpertCount, 0) == 0) return;
  reject_other_routing(keys, *config.architecture);
  Routing& routing = config.routing;
  routing.n_experts = keys.count(kExpertCount, kMaxExperts);
  routing.n_used = keys.count_of_layers(kExpertUsedCount, routing.n_experts);
  routing.gating = config.architecture->gating;
  // Where it is open and no key states it, as in files of llama.cpp's converter, networks that
  // correct the choice by a bias (DeepSeek-V3, arXiv:2412.19437, 2.1.2) have a sigmoid.
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", config.n_layers - 1);
  const bool is_open = config.architecture->routing_keys == RoutingKeys::kAll;
  if (is_open && keys.gguf().find_tensor(bias) != nullptr) routing.gating = Gating::kSigmoid;
  if (const int64_t stated = keys.integer(kExpertGating, 0); stated != 0) {
    if (stated < 1 || stated > 3) {
      keys.reject(kExpertGating, fmt::format("is {}", stated),
                  "Assay computes 1 (softmax), 2 (sigmoid) and 3 (softmax of those used)");
    }
    routing.gating = static_cast<Gating>(stated - 1);
  }
  routing.normalise = keys.flag(kExpertWeightsNorm, config.architecture->normalise_weights);
  routing.added_to_sum = config.architecture->added_to_weights_sum;
  if (routing.gating == Gating::kSparseMixer) {
    if (routing.n_used != 2) {
      keys.reject(kExpertUsedCount, fmt::format("is {}", routing.n_used),
                  "Assay computes two experts of this architecture for each token");
    }
    routing.jitter = keys.gguf().get_float(own::kRouterJitter, config.architecture->router_jitter);
    if (!(routing.jitter >= 0.0 && std::isfinite(routing.jitter))) {
      throw Error(fmt::format("key '{}' is {}", own::kRouterJitter, routing.jitter),
                  keys.gguf().path(), "it has to be 0 or more");
    }
  }
  // Files state 0 for no scale.
  if (keys.number(kExpertWeightsScale, 0.0) != 0.0) {
    routing.scale = static_cast<float>(keys.positive(kExpertWeightsScale));
  }
  routing.n_groups = keys.count_or(kExpertGroupCount, routing.n_experts, 1);
  routing.n_groups_used = keys.count_or(kExpertGroupUsedCount, routing.n_groups, 1);
  const int64_t group_size = routing.n_experts / routing.n_groups;
  if (routing.n_experts % routing.n_groups != 0 ||
      routing.n_used > routing.n_groups_used * group_size) {
    keys.reject(
        kExpertGroupCount,
        fmt::format("is {}, of which {} are used, for {} experts, of which {} are used",
                    routing.n_groups, routing.n_groups_used, routing.n_experts, routing.n_used));
  }
  const int64_t whole = config.feed_forward_length;
  const bool split = config.architecture->experts_split_ffn;
  config.expert_feed_forward_length =
      whole == 0
          ? keys.count_of_layers(kExpertFeedForwardLength, kMaxExpertWidth)
          : keys.count_of_layers(kExpertFeedForwardLength, kMaxExpertWidth,
                                 split ? std::max<int64_t>(1, whole / routing.n_used) : whole);
  const int64_t shared =
      keys.count_or(kExpertSharedCount, kMaxExperts, 0) * config.expert_feed_forward_length;
  config.shared_feed_forward_length =
      keys.count_or(kSharedFeedForwardLength, kMaxExpertWidth,
                    config.architecture->shared_as_expert ? config.expert_feed_forward_length
                    : split                               ? whole
                                                          : shared);
}

void add_whole_shared_expert(std::span<OpSpec> layer) {
  for (OpSpec& op : layer) {
    if (op.out == Checkpoint::kFfnOut) op.scale = 1.0F;
  }
}

}  // namespace assay
