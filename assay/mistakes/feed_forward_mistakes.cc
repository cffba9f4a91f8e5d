#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kFeedForward;
constexpr Checkpoint kAt = Checkpoint::kFfnAct;

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
      return {{"silu-for-gelu", kGroup, "SiLU for GELU", kAt, needs_gelu}};
    case Activation::kGeluTanh:
      return {
          {"gelu-for-silu", kGroup, "GELU for SiLU", kAt, needs_silu},
          {"gelu-tanh-for-exact", kGroup, "GELU by tanh for GELU by erf", kAt, needs_exact_gelu}};
    case Activation::kGeluErf:
      return {{"gelu-exact-for-tanh", kGroup, "GELU by erf for GELU by tanh", kAt, needs_gelu}};
    case Activation::kGeluFast:
      return {{"gelu-sigmoid-for-tanh", kGroup, "GELU by a sigmoid of 1.702 x", kAt, needs_gelu}};
    case Activation::kRelu:
      return {{"relu-for-silu", kGroup, "ReLU for SiLU", kAt, needs_silu},
              {"relu-for-squared", kGroup, "ReLU is not squared", kAt, needs_relu_squared}};
    case Activation::kIdentity:
      return {{"activation-missing", kGroup, "no activation function", kAt}};
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
       .faults = {{"activation-of-up", kGroup, "SiLU is applied to up, and not to the gate", kAt,
                   needs_gate}}});
  mistakes.push_back(
      {.edit = {.activate =
                    [](const OpContext& context, ActivateCall call, Kernels& kernels) {
                      call.up = nullptr;
                      activate(call, *context.network.activation, kernels);
                    }},
       .faults = {{"gate-not-multiplied", kGroup, "up is not multiplied in", kAt, needs_gate}}});
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
       .faults = {{"clamp-missing", kGroup, "gate and up are not clamped", kAt, needs_clamp}}});
  return mistakes;
}

}  // namespace assay::mistakes
