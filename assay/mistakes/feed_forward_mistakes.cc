#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

// The clamped SwiGLU of gpt-oss with other numbers.
struct OtherSwiglu {
  double slope = 1.702;
  double added = 1.0;  // to up
  double limit = 7.0;  // of gate and up

  void activate(const ActivateCall& call) const {
    for (int64_t i = 0; i < call.count; ++i) {
      const double gate = std::min<double>(call.x[i], limit);
      const double up = std::clamp<double>(call.up[i], -limit, limit);
      const double glu = gate / (1.0 + std::exp(-slope * gate));
      call.out[i] = static_cast<float>(glu * (up + added));
    }
  }
};

Mistake swiglu_mistake(const char* text, OtherSwiglu other, std::vector<Injected> faults = {}) {
  return {.cause = "activation_kind",
          .text = plainly(text),
          .edit = {.activate = [other](const OpContext&, const ActivateCall& call,
                                       Kernels&) { other.activate(call); }},
          .possible = [](const Network& network,
                         Op) { return network.activation == Activation::kClampedSwiglu; },
          .faults = std::move(faults)};
}

void activate_both(const OpContext& context, ActivateCall call, Kernels& kernels) {
  ActivateCall of_up = call;
  std::vector<float> up(static_cast<size_t>(call.count));
  of_up.x = call.up;
  of_up.up = nullptr;
  of_up.out = up.data();
  activate(of_up, *context.network.activation, kernels);
  call.up = up.data();
  activate(call, *context.network.activation, kernels);
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
      {.cause = "activation_kind",
       .text = plainly("activates up as well as gate"),
       .edit = {.activate = activate_both},
       .possible =
           [](const Network& network, Op) {
             return network.gated() && network.activation != Activation::kClampedSwiglu;
           },
       .faults = {{"activation-of-both", FaultGroup::kFeedForward,
                   "the activation is applied to up as well as to the gate", Checkpoint::kFfnAct,
                   needs("gate that is activated alone", [](const ModelConfig& config) {
                     return config.find(Checkpoint::kFfnGate) != nullptr &&
                            config.activation != ActivationKind::kClampedSwiglu;
                   })}}});
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
  mistakes.push_back(swiglu_mistake(
      "does not clamp gate and up", {.limit = std::numeric_limits<double>::infinity()},
      {{"clamp-missing", FaultGroup::kFeedForward, "gate and up are not clamped",
        Checkpoint::kFfnAct, needs_clamp}}));
  mistakes.push_back(swiglu_mistake("does not add 1 to up", {.added = 0.0},
                                    {{"swiglu-without-one", FaultGroup::kFeedForward,
                                      "1 is not added to up", Checkpoint::kFfnAct, needs_clamp}}));
  mistakes.push_back(
      swiglu_mistake("applies SiLU to the gate: its slope is 1 in place of 1.702", {.slope = 1.0},
                     {{"swiglu-slope-of-silu", FaultGroup::kFeedForward,
                       "the gate's slope is 1, not 1.702", Checkpoint::kFfnAct, needs_clamp}}));
  return mistakes;
}

}  // namespace assay::mistakes
