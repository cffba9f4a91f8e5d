#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/routing.h"

// How a token's experts are chosen: by groups, and with a bias.
namespace assay::mistakes {

const float* choice_bias(const Network& network, int layer) {
  return network.model == nullptr
             ? nullptr
             : network.model->layers[static_cast<size_t>(layer)].extra.choice_bias;
}

namespace {

// The weights of experts by the scores that they are chosen by.
void weigh_with_bias(const OpContext& context, const WeighCall& call, Kernels& kernels) {
  const float* bias = choice_bias(context.network, context.site.layer);
  const Routing& routing = call.routing;
  WeighCall plain = call;
  plain.routing.normalise = false;
  plain.routing.scale = 1.0F;
  kernels.run(plain);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    double sum = 0.0;
    std::vector<double> weights;
    for (int64_t j = t * routing.n_used; j < (t + 1) * routing.n_used; ++j) {
      weights.push_back(static_cast<double>(call.weights[j]) +
                        static_cast<double>(bias[call.ids[j]]));
      sum += weights.back();
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      const double share = routing.normalise ? weights[j] / sum : weights[j];
      call.weights[t * routing.n_used + static_cast<int64_t>(j)] =
          static_cast<float>(share * static_cast<double>(routing.scale));
    }
  }
}

// With the values that the scores are gated to in the place of the scores, which are taken as they
// are: then a group is as good as its best expert.
void select_by_best_of_group(const OpContext&, SelectCall call, Kernels& kernels) {
  std::vector<float> values(call.scores, call.scores + call.n_tokens * call.routing.n_experts);
  for (float& value : values) value = 1.0F / (1.0F + std::exp(-value));
  call.scores = values.data();
  call.routing.gating = Gating::kSoftmaxOfUsed;
  kernels.run(call);
}

// The experts of the greatest shares of a softmax and the bias together, in that order.
void select_by_softmax(const OpContext&, const SelectCall& call, Kernels& kernels) {
  const int64_t n_experts = call.routing.n_experts;
  SelectCall by_values = call;
  by_values.routing.gating = Gating::kSoftmaxOfUsed;  // takes the scores as they are
  by_values.bias = nullptr;
  by_values.n_tokens = 1;
  std::vector<float> values(static_cast<size_t>(n_experts));
  by_values.scores = values.data();
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* scores = call.scores + t * n_experts;
    const double greatest = *std::max_element(scores, scores + n_experts);
    double sum = 0.0;
    for (int64_t i = 0; i < n_experts; ++i) sum += std::exp(scores[i] - greatest);
    for (int64_t i = 0; i < n_experts; ++i) {
      const double share = std::exp(scores[i] - greatest) / sum;
      values[static_cast<size_t>(i)] =
          static_cast<float>(share + (call.bias == nullptr ? 0.0 : call.bias[i]));
    }
    by_values.ids = call.ids + t * call.routing.n_used;
    kernels.run(by_values);
  }
}

void weigh_by_softmax_with_bias(const OpContext& context, WeighCall call, Kernels& kernels) {
  call.routing.gating = Gating::kSoftmax;
  weigh_with_bias(context, call, kernels);
}

Mistake chosen(const char* cause, const char* text, void (*edit)(SelectCall&),
               std::function<bool(const Network&, Op)> possible, Injected injected) {
  return {.cause = cause,
          .text = plainly(text),
          .edit = {.select =
                       [edit](const OpContext&, SelectCall call, Kernels& kernels) {
                         edit(call);
                         kernels.run(call);
                       }},
          .possible = std::move(possible),
          .faults = {std::move(injected)}};
}

}  // namespace

std::vector<Mistake> expert_choice_mistakes() {
  const Needs has_groups = [](const Routing& r) { return r.n_groups_used < r.n_groups; };
  const auto has_bias = [](const Network& network, Op op) {
    return choice_bias(network, op.layer) != nullptr;
  };
  const auto any_bias = [](const Model& model) {
    const bool has = std::ranges::any_of(
        model.layers, [](const Layer& layer) { return layer.extra.choice_bias != nullptr; });
    return has ? "" : "its experts are chosen without a bias";
  };
  const auto of_bias = [&](const char* name, const char* what, Checkpoint at) {
    return Injected{.name = name,
                    .group = FaultGroup::kFeedForward,
                    .what = what,
                    .at = at,
                    .unsupported_reason = any_bias,
                    .in_every_layer = true,
                    .in_arguments = true};
  };
  Injected all_groups = routing_fault("expert-groups-ignored", "experts are chosen from all groups",
                                      Checkpoint::kExperts, "groups that are not used", has_groups);
  all_groups.in_every_layer = true;
  const Needs has_groups_of_sums = [](const Routing& r) {
    return r.n_groups_used < r.n_groups && r.gating == Gating::kSigmoid && r.n_experts > r.n_groups;
  };
  Injected best_of_group = routing_fault(
      "expert-groups-by-best", "a group of experts is as good as its best, not its two best",
      Checkpoint::kExperts, "groups that are as good as two of them", has_groups_of_sums);
  best_of_group.in_every_layer = true;
  Injected by_softmax =
      of_bias("expert-softmax-with-bias",
              "experts are chosen and weighed by a softmax with the bias", Checkpoint::kExperts);
  by_softmax.also = {Checkpoint::kExpertWeights};
  by_softmax.unsupported_reason = [any_bias](const Model& model) -> std::string {
    if (std::string reason = any_bias(model); !reason.empty()) return reason;
    return model.config().routing.gating == Gating::kSigmoid ? "" : "it has no sigmoid of experts";
  };
  return {
      chosen(
          "experts_used", "chooses experts from all groups, not from the best ones",
          [](SelectCall& call) { call.routing.n_groups = call.routing.n_groups_used = 1; },
          routed(has_groups), std::move(all_groups)),
      chosen(
          "bias_missing", "chooses experts without the bias of the choice",
          [](SelectCall& call) { call.bias = nullptr; }, has_bias,
          of_bias("expert-bias-missing", "experts are chosen without their bias",
                  Checkpoint::kExperts)),
      {.cause = "experts_used",
       .text = plainly("takes a group of experts for as good as its best one, not as its two "
                       "best together"),
       .edit = {.select = select_by_best_of_group},
       .possible = routed(has_groups_of_sums),
       .faults = {std::move(best_of_group)}},
      {.cause = "router_weights",
       .text = plainly("chooses and weighs the experts by a softmax with the bias of the choice "
                       "in place of a sigmoid, to which that is added to choose alone"),
       .edit = {.select = select_by_softmax, .weigh = weigh_by_softmax_with_bias},
       .possible =
           [has_bias](const Network& network, Op op) {
             return has_bias(network, op) &&
                    network.model->config().routing.gating == Gating::kSigmoid;
           },
       .faults = {std::move(by_softmax)}},
      {.cause = "router_weights",
       .text = plainly("adds the bias of the choice to the experts' weights"),
       .edit = {.weigh = weigh_with_bias},
       .possible =
           [has_bias](const Network& network, Op op) {
             return has_bias(network, op) &&
                    network.model->config().routing.gating != Gating::kSoftmaxOfUsed;
           },
       .faults = {of_bias("expert-bias-in-weights",
                          "the bias of the choice is added to the experts' weights",
                          Checkpoint::kExpertWeights)}}};
}

}  // namespace assay::mistakes
