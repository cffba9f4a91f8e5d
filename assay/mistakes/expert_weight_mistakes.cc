#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/routing.h"

// Of experts with the weights on their inputs (Llama 4), and of SparseMixer's weights
// (Phi-3.5-MoE).
namespace assay::mistakes {
namespace {

bool weighs_inputs(const ModelConfig& config) {
  return config.find(Checkpoint::kExpertIn) != nullptr;
}

// Of each expert the token as it is.
void spread_as_it_is(const OpContext&, SpreadCall call, Kernels& kernels) {
  const std::vector<float> ones(static_cast<size_t>(call.n_tokens * call.n_used), 1.0F);
  call.weights = ones.data();
  kernels.run(call);
}

// With the weights that the layer has, where they are known.
void mix_weighed(const OpContext& context, MixCall call, Kernels& kernels) {
  const auto weights = context.inputs.other
                           ? context.inputs.other({Checkpoint::kExpertWeights, context.site.layer})
                           : nullptr;
  if (weights && std::ssize(weights->values) == call.n_tokens * call.n_used) {
    call.weights = weights->values.data();
  }
  kernels.run(call);
}

bool reads_or_lacks_weights(const Network& network, Op op) {
  if (network.model == nullptr || is_of_shared_expert(op.checkpoint)) return false;
  const OpKind kind = network.kind_of(op);
  return kind == OpKind::kSpread || (kind == OpKind::kMix && network.inputs(op).size() == 1);
}

bool is_mix_without_weights(const Network& network, Op op) {
  return reads_or_lacks_weights(network, op) && network.kind_of(op) == OpKind::kMix;
}

Injected of_inputs(const char* name, const char* what) {
  return {.name = name,
          .group = FaultGroup::kFeedForward,
          .what = what,
          .at = Checkpoint::kExpertIn,
          .unsupported_reason = needs("weights on what goes into its experts", weighs_inputs),
          .in_arguments = true};
}

Injected on_outputs() {
  Injected fault = of_inputs("router-weights-on-output",
                             "the experts' weights are on what they give, not on what they get");
  fault.also = {Checkpoint::kRoutedOut, Checkpoint::kFfnOut};
  return fault;
}

Injected on_both() {
  Injected fault = of_inputs("router-weights-on-both",
                             "the experts' weights are on what they get and on what they give");
  fault.at = Checkpoint::kRoutedOut;
  fault.also = {Checkpoint::kFfnOut};
  return fault;
}

// As SparseMixer, but how near a score is to the best one counts in units of the smaller of the
// two.
void share_by_smaller(const OpContext&, const WeighCall& call, Kernels&) {
  const Routing& routing = call.routing;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* scores = call.scores + t * routing.n_experts;
    const int32_t* ids = call.ids + t * routing.n_used;
    for (int64_t slot = 0; slot < routing.n_used; ++slot) {
      const double best = scores[ids[slot]];
      double sum = 0.0;
      for (int32_t i = 0; i < routing.n_experts; ++i) {
        if (std::find(ids, ids + slot, i) != ids + slot) continue;
        const double score = scores[i];
        const double unit = std::min(std::abs(score), best);
        if ((best - score) / unit > 2.0 * routing.jitter) continue;
        sum += std::exp(score - best);
      }
      const double scale = static_cast<double>(routing.scale);
      call.weights[t * routing.n_used + slot] = static_cast<float>(scale / sum);
    }
  }
}

using Weigh = std::function<void(const OpContext&, const WeighCall&, Kernels&)>;

Weigh routed_as(void (*edit)(Routing&)) {
  return [edit](const OpContext&, WeighCall call, Kernels& kernels) {
    edit(call.routing);
    kernels.run(call);
  };
}

Mistake of_mixer(const char* text, Weigh weigh, Injected fault) {
  return {.cause = "router_weights",
          .text = plainly(text),
          .edit = {.weigh = std::move(weigh)},
          .possible =
              routed([](const Routing& routing) { return routing.gating == Gating::kSparseMixer; }),
          .faults = {std::move(fault)}};
}

Injected fault_of_mixer(const char* name, const char* what) {
  return routing_fault(
      name, what, Checkpoint::kExpertWeights, "weights by SparseMixer",
      [](const Routing& routing) { return routing.gating == Gating::kSparseMixer; });
}

}  // namespace

std::vector<Mistake> expert_weight_mistakes() {
  return {
      {.cause = "router_weights",
       .text = plainly("has the experts' weights on their output, not on their input"),
       .edit = {.spread = spread_as_it_is, .mix = mix_weighed},
       .possible = reads_or_lacks_weights,
       .faults = {on_outputs()}},
      {.cause = "router_weights",
       .text = plainly("has the experts' weights on their output, too"),
       .edit = {.mix = mix_weighed},
       .possible = is_mix_without_weights,
       .faults = {on_both()}},
      {.cause = "router_weights",
       .text = plainly("leaves the experts' weights out"),
       .edit = {.spread = spread_as_it_is},
       .possible = reads_or_lacks_weights,
       .faults = {of_inputs("router-weights-missing", "the experts' weights are left out")}},
      of_mixer("takes the softmax over all experts and divides by the sum of those used (no "
               "SparseMixer)",
               routed_as([](Routing& routing) {
                 routing.gating = Gating::kSoftmax;
                 routing.normalise = true;
               }),
               fault_of_mixer("mixer-softmax-normalised",
                              "softmax is over all experts, and divided by the sum of those used")),
      of_mixer("takes the softmax over all experts, not over those that are near (no SparseMixer)",
               routed_as([](Routing& routing) { routing.gating = Gating::kSoftmax; }),
               fault_of_mixer("mixer-softmax-of-all",
                              "softmax is over all experts, not over those that are near")),
      of_mixer("takes experts for near within the jitter, not within twice that",
               routed_as([](Routing& routing) { routing.jitter /= 2.0; }),
               fault_of_mixer("mixer-jitter-once",
                              "experts are near within the jitter, not twice that")),
      of_mixer("takes experts for near by the smaller of two scores, not by the greater "
               "(SparseMixer)",
               share_by_smaller,
               fault_of_mixer("mixer-smaller-score",
                              "experts are near by the smaller of two scores, not the greater"))};
}

}  // namespace assay::mistakes
