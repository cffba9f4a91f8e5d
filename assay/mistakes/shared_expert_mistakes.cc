#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/mistakes/number_text.h"
#include "assay/mistakes/routing.h"

// Of the expert that all tokens use, beside those that they choose.
namespace assay::mistakes {
namespace {

UnsupportedReason needs_shared_expert() {
  return needs("shared expert", [](const ModelConfig& config) {
    return config.find(Checkpoint::kSharedOut) != nullptr;
  });
}

void run_with_scaled_shared(const OpContext& context, AddCall call, Kernels& kernels) {
  std::vector<float> scaled(call.b, call.b + call.count);
  for (float& x : scaled) x *= static_cast<float>(context.parameter);
  call.b = scaled.data();
  kernels.run(call);
}

// As where it is scaled with the routed ones, or that is undone twice.
Mistake scaled_shared_mistake() {
  const Needs has_scale = [](const Routing& r) { return r.scale != 1.0F; };
  return {
      .cause = "shared_expert",
      .text =
          [](const Network&, double by) {
            return fmt::format("multiplies the shared expert by {}, too", number_unlike(by, 1));
          },
      .edit = {.add = run_with_scaled_shared},
      .possible =
          [is_routed = routed(has_scale)](const Network& network, Op op) {
            return op.checkpoint == Checkpoint::kFfnOut && is_routed(network, op);
          },
      .grid =
          [](const Network& network) {
            const double scale = network.model->config().routing.scale;
            return scale > 1 ? std::vector{1 / scale, scale} : std::vector{scale, 1 / scale};
          },
      .faults = {{.name = "shared-expert-scaled",
                  .group = FaultGroup::kFeedForward,
                  .what = "the shared expert is scaled as the others are",
                  .at = Checkpoint::kFfnOut,
                  .unsupported_reason = needs("scaled experts beside a shared one",
                                              [](const ModelConfig& config) {
                                                return config.shared_feed_forward_length > 0 &&
                                                       config.routing.scale != 1.0F;
                                              }),
                  .parameter =
                      [](const OpContext& context) {
                        return static_cast<double>(context.network.model->config().routing.scale);
                      },
                  .in_every_layer = true,
                  .in_arguments = true}}};
}

// The sum of routed and shared experts without one of them.
Mistake missing_mistake(const char* cause, const char* text, const float* AddCall::*kept,
                        const char* name, const char* what) {
  return {.cause = cause,
          .text = plainly(text),
          .edit = {.add = [kept](const OpContext&, const AddCall& call,
                                 Kernels&) { std::copy_n(call.*kept, call.count, call.out); }},
          .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kFfnOut; },
          .faults = {{.name = name,
                      .group = FaultGroup::kFeedForward,
                      .what = what,
                      .at = Checkpoint::kFfnOut,
                      .unsupported_reason = needs_shared_expert(),
                      .in_every_layer = true}}};
}

// Ranks that have all of it, and whose sum is taken for that of parts.
Mistake repeated_shared_mistake() {
  return {.cause = "shared_expert",
          .text =
              [](const Network&, double times) {
                return fmt::format("adds the shared expert {:.0f} times, as if each rank added it",
                                   times);
              },
          .edit = {.add = run_with_scaled_shared},
          .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kFfnOut; },
          .grid = among({2, 4, 8}),
          .faults = {{.name = "shared-expert-of-ranks",
                      .group = FaultGroup::kFeedForward,
                      .what = "the shared expert is added twice",
                      .at = Checkpoint::kFfnOut,
                      .unsupported_reason = needs_shared_expert(),
                      .parameter = with(2),
                      .in_every_layer = true}}};
}

// Where a gate says how much of it each token has.
Mistake gate_mistake(const char* text, float (*weight)(float score), const char* name,
                     const char* what) {
  return {
      .cause = "shared_expert",
      .text = plainly(text),
      .edit = {.weigh =
                   [weight](const OpContext&, const WeighCall& call, Kernels&) {
                     std::transform(call.scores, call.scores + call.n_tokens, call.weights, weight);
                   }},
      .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kSharedWeight; },
      .faults = {{.name = name,
                  .group = FaultGroup::kFeedForward,
                  .what = what,
                  .at = Checkpoint::kSharedWeight,
                  .unsupported_reason = needs("gate of the shared expert",
                                              [](const ModelConfig& config) {
                                                return config.find(Checkpoint::kSharedWeight) !=
                                                       nullptr;
                                              }),
                  .in_every_layer = true}}};
}

}  // namespace

std::vector<Mistake> shared_expert_mistakes() {
  std::vector<Mistake> mistakes = {
      missing_mistake("shared_expert", "leaves the shared expert out", &AddCall::a,
                      "shared-expert-missing", "the shared expert is left out"),
      missing_mistake("experts_used", "leaves the experts out, all but the shared one", &AddCall::b,
                      "routed-experts-missing", "the shared expert alone is used"),
      scaled_shared_mistake(),
      repeated_shared_mistake(),
      gate_mistake(
          "leaves the gate of the shared expert out", [](float) { return 1.0F; },
          "shared-gate-missing", "the gate of the shared expert is left out"),
      gate_mistake(
          "multiplies the shared expert by its score, not by the sigmoid of that",
          [](float score) { return score; }, "shared-gate-without-sigmoid",
          "the score of the shared expert does not go through a sigmoid")};
  return mistakes;
}

}  // namespace assay::mistakes
