#include <fmt/format.h>

#include <algorithm>

#include "assay/mistakes/routing.h"

// Engines that give each expert room for so many tokens of a batch and drop what goes beyond, as is
// done in training (GShard: Lepikhin et al. 2020; the published code of Hunyuan): what they compute
// of a token depends on the others.
namespace assay::mistakes {
namespace {

// Tokens of the call that go through the network together with its first one. Where a prompt ends
// that nothing tells, it is all.
int64_t tokens_together(const OpContext& context, const WeighCall& call) {
  int64_t together = context.n_together > 0 ? context.n_together : context.network.n_prompt;
  if (together == 0) return call.n_tokens;
  together -= context.site.first_position;
  return std::clamp(together, int64_t{0}, call.n_tokens);
}

// An expert takes the first choices of all tokens before any second one. Its room is the parameter
// times its even share, but never less than a token's experts, so that decoding one token at a time
// drops nothing.
void weigh_what_fits(const OpContext& context, const WeighCall& call, Kernels& kernels) {
  kernels.run(call);
  const int64_t n_used = call.routing.n_used;
  const int64_t n_tokens = tokens_together(context, call);
  const double share =
      static_cast<double>(n_used * n_tokens) / static_cast<double>(call.routing.n_experts);
  const int64_t room = std::max(n_used, static_cast<int64_t>(context.parameter * share));
  std::vector<int64_t> taken(static_cast<size_t>(call.routing.n_experts));
  for (int64_t choice = 0; choice < n_used; ++choice) {
    for (int64_t t = 0; t < n_tokens; ++t) {
      const int64_t slot = t * n_used + choice;
      if (++taken[static_cast<size_t>(call.ids[slot])] > room) call.weights[slot] = 0.0F;
    }
  }
}

std::string capacity_text(const Network&, double factor) {
  const std::string times = factor == 1.0 ? "" : fmt::format("{} times ", factor);
  return fmt::format("drops tokens beyond an expert's capacity, {}its even share of the prompt",
                     times);
}

// Capacity factors that are in use.
std::vector<double> capacity_factors(const Network&) {
  return {1.0, 1.25, 1.5, 2.0};
}

}  // namespace

std::vector<Mistake> expert_capacity_mistakes() {
  const Needs has_choice = [](const Routing& r) { return r.n_used < r.n_experts; };
  Injected fault = routing_fault("expert-capacity", "an expert drops tokens beyond its even share",
                                 Checkpoint::kExpertWeights, "choice of experts", has_choice);
  fault.in_every_layer = true;
  fault.parameter = [](const OpContext&) { return 1.0; };
  return {{.cause = "experts_used",
           .text = capacity_text,
           .edit = {.weigh = weigh_what_fits},
           .possible = routed(has_choice),
           .grid = capacity_factors,
           .reads_all_positions = true,
           .faults = {std::move(fault)}}};
}

}  // namespace assay::mistakes
