#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

// The clamped SwiGLU of gpt-oss without its limits.
void activate_without_clamp(const ActivateCall& call) {
  constexpr double kSlope = 1.702;
  for (int64_t i = 0; i < call.count; ++i) {
    const double gate = call.x[i];
    const double glu = gate / (1.0 + std::exp(-kSlope * gate));
    call.out[i] = static_cast<float>(glu * (1.0 + call.up[i]));
  }
}

std::vector<Injected> faults_with(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return {{"silu-for-gelu", FaultGroup::kFeedForward, "SiLU for GELU", Checkpoint::kFfnAct,
               needs_gelu}};
    case Activation::kGeluTanh:
      return {{"gelu-for-silu", FaultGroup::kFeedForward, "GELU for SiLU", Checkpoint::kFfnAct,
               needs_silu},
              {"gelu-tanh-for-exact", FaultGroup::kFeedForward, "GELU by tanh for GELU by erf",
               Checkpoint::kFfnAct, needs_exact_gelu}};
    case Activation::kGeluErf:
      return {{"gelu-exact-for-tanh", FaultGroup::kFeedForward, "GELU by erf for GELU by tanh",
               Checkpoint::kFfnAct, needs_gelu}};
    case Activation::kGeluFast:
      return {{"gelu-sigmoid-for-tanh", FaultGroup::kFeedForward, "GELU by a sigmoid of 1.702 x",
               Checkpoint::kFfnAct, needs_gelu}};
    case Activation::kRelu:
      return {{"relu-for-silu", FaultGroup::kFeedForward, "ReLU for SiLU", Checkpoint::kFfnAct,
               needs_silu},
              {"relu-for-squared", FaultGroup::kFeedForward, "ReLU is not squared",
               Checkpoint::kFfnAct, needs_relu_squared}};
    case Activation::kIdentity:
      return {{"activation-missing", FaultGroup::kFeedForward, "no activation function",
               Checkpoint::kFfnAct}};
    case Activation::kReluSquared:
    case Activation::kClampedSwiglu:
    case Activation::kSigmoid:
      break;
  }
  return {};
}

Mistake activation_mistake(Activation other) {
  return {.cause = "activation_kind",
          .text =
              [other](const Network& network, double) {
                return fmt::format("applies {} in place of {}", activation_name(other),
                                   activation_name(*network.activation));
              },
          .edit = {.activate = [other](const OpContext&, const ActivateCall& call,
                                       Kernels& kernels) { activate(call, other, kernels); }},
          .possible = [other](const Network& network, Op) { return network.activation != other; },
          .faults = faults_with(other)};
}

}  // namespace

std::vector<Mistake> feed_forward_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Activation other : kActivations) mistakes.push_back(activation_mistake(other));
  mistakes.push_back(
      {.cause = "gate_up_swapped",
       .text = plainly("activates up and multiplies by gate"),
       .edit = {.activate =
                    [](const OpContext& context, ActivateCall call, Kernels& kernels) {
                      std::swap(call.x, call.up);
                      activate(call, *context.network.activation, kernels);
                    }},
       .possible = [](const Network& network, Op) { return network.gated(); },
       .faults = {{"activation-of-up", FaultGroup::kFeedForward,
                   "SiLU is applied to up, and not to the gate", Checkpoint::kFfnAct,
                   needs_gate}}});
  mistakes.push_back(
      {.edit = {.activate =
                    [](const OpContext& context, ActivateCall call, Kernels& kernels) {
                      call.up = nullptr;
                      activate(call, *context.network.activation, kernels);
                    }},
       .faults = {{"gate-not-multiplied", FaultGroup::kFeedForward, "up is not multiplied in",
                   Checkpoint::kFfnAct, needs_gate}}});
  const UnsupportedReason needs_clamp =
      needs("clamp of gate and up", [](const ModelConfig& config) {
        return config.activation == ActivationKind::kClampedSwiglu;
      });
  mistakes.push_back(
      {.cause = "activation_kind",
       .text = plainly("does not clamp gate and up"),
       .edit = {.activate = [](const OpContext&, const ActivateCall& call,
                               Kernels&) { activate_without_clamp(call); }},
       .possible = [](const Network& network,
                      Op) { return network.activation == Activation::kClampedSwiglu; },
       .faults = {{"clamp-missing", FaultGroup::kFeedForward, "gate and up are not clamped",
                   Checkpoint::kFfnAct, needs_clamp}}});
  return mistakes;
}

}  // namespace assay::mistakes
