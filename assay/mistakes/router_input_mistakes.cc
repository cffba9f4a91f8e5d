#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/routing.h"

// Of experts beside a dense feed-forward (Gemma 4): the norm of what the router reads, and a scale
// of each expert.
namespace assay::mistakes {
namespace {

bool is_norm_of_router(const Network&, Op op) {
  return op.checkpoint == Checkpoint::kRouterNorm;
}

// The router's norm with another number in the place of each weight, which is `weight` / `root`.
Mistake of_router_norm(const char* text, float (*edit)(float weight, float root), const char* name,
                       const char* what) {
  return {.cause = "router_scale",
          .text = plainly(text),
          .edit = {.norm =
                       [edit](const OpContext&, NormCall call, Kernels& kernels) {
                         const float root = std::sqrt(static_cast<float>(call.width));
                         std::vector<float> weight(call.weight, call.weight + call.width);
                         for (float& each : weight) each = edit(each, root);
                         call.weight = weight.data();
                         kernels.run(call);
                       }},
          .possible = is_norm_of_router,
          .faults = {{.name = name,
                      .group = FaultGroup::kFeedForward,
                      .what = what,
                      .at = Checkpoint::kRouterNorm,
                      .unsupported_reason = needs("norm of what its router reads",
                                                  [](const ModelConfig& config) {
                                                    return config.find(Checkpoint::kRouterNorm) !=
                                                           nullptr;
                                                  }),
                      .in_arguments = true}}};
}

std::string needs_expert_scales(const Model& model) {
  const bool has = std::ranges::any_of(
      model.layers, [](const Layer& layer) { return layer.extra.expert_scales != nullptr; });
  return has ? "" : "its experts have no scales of their own";
}

// The weights of experts with the scale of each applied otherwise.
Mistake of_expert_scales(const char* text, Hook<WeighCall> edit, const char* name,
                         const char* what) {
  return {.cause = "router_scale",
          .text = plainly(text),
          .edit = {.weigh = std::move(edit)},
          .possible = [](const Network& network,
                         Op op) { return network.expert_scales(op) != nullptr; },
          .faults = {{.name = name,
                      .group = FaultGroup::kFeedForward,
                      .what = what,
                      .at = Checkpoint::kExpertWeights,
                      .unsupported_reason = needs_expert_scales,
                      .in_arguments = true}}};
}

void weigh_without_scales(const OpContext&, WeighCall call, Kernels& kernels) {
  call.scales = nullptr;
  kernels.run(call);
}

// Divides by the sum of what has been scaled.
void scale_before_sum(const OpContext&, const WeighCall& call, Kernels& kernels) {
  kernels.run(call);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const std::span<float> weights(call.weights + t * call.routing.n_used,
                                   static_cast<size_t>(call.routing.n_used));
    float sum = 0.0F;
    for (const float weight : weights) sum += weight;
    for (float& weight : weights) weight /= sum;
  }
}

// By the expert's place among the token's own.
void scale_by_place(const OpContext&, WeighCall call, Kernels& kernels) {
  const float* scales = std::exchange(call.scales, nullptr);
  kernels.run(call);
  for (int64_t i = 0; i < call.n_tokens * call.routing.n_used; ++i) {
    call.weights[i] *= scales[i % call.routing.n_used];
  }
}

}  // namespace

std::vector<Mistake> router_input_mistakes() {
  return {
      of_router_norm(
          "leaves the router's own scale out", [](float, float root) { return 1.0F / root; },
          "router-input-scale-missing", "what the router reads is not multiplied by its own scale"),
      of_router_norm(
          "does not divide what the router reads by the root of the width",
          [](float weight, float root) { return weight * root; }, "router-input-root-missing",
          "what the router reads is not divided by the root of the width"),
      of_expert_scales("leaves the scale of each expert out", weigh_without_scales,
                       "expert-scales-missing",
                       "the experts' weights are not multiplied by the scale of each"),
      of_expert_scales("multiplies by the scale of each expert before it divides by the sum",
                       scale_before_sum, "expert-scales-before-sum",
                       "the experts' weights are divided by the sum of those with scales"),
      of_expert_scales("multiplies a token's experts by the scales of experts 0, 1, ...",
                       scale_by_place, "expert-scales-of-first",
                       "a token's experts have the scales of the first experts")};
}

}  // namespace assay::mistakes
