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

void activate_product(const OpContext& context, ActivateCall call, Kernels& kernels) {
  std::vector<float> product(call.x, call.x + call.count);
  for (int64_t i = 0; i < call.count; ++i) product[static_cast<size_t>(i)] *= call.up[i];
  call.x = product.data();
  call.up = nullptr;
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
    case Activation::kXielu:
    case Activation::kSigmoid:
    case Activation::kTanh:
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

// What an engine of 16-bit numbers rounds on the way from gate and up to their product.
struct RoundedSteps {
  enum class Silu : uint8_t {
    kAtOnce,
    kBySigmoid,  // x * sigmoid(x), of which the sigmoid is rounded
    kByQuotient  // x / (1 + e^-x), with the exponential and the sum rounded
  };
  const char* text;  // before the type
  bool gate = false;
  Silu silu = Silu::kAtOnce;
  bool activation = false;  // what it gives
  bool product = false;     // up, and what the two make
};
constexpr RoundedSteps kRoundedSteps[] = {
    {.text = "rounds the gate to", .gate = true},
    {.text = "rounds the activated gate to", .activation = true},
    {.text = "rounds the gate and the activated gate to", .gate = true, .activation = true},
    {.text = "rounds the gate, the activated gate and its product with up to",
     .gate = true,
     .activation = true,
     .product = true},
    {.text = "multiplies the gate by its sigmoid in",
     .gate = true,
     .silu = RoundedSteps::Silu::kBySigmoid,
     .activation = true},
    {.text = "multiplies the gate by its sigmoid, and up by that, in",
     .gate = true,
     .silu = RoundedSteps::Silu::kBySigmoid,
     .activation = true,
     .product = true},
    {.text = "computes each step of SiLU in",
     .gate = true,
     .silu = RoundedSteps::Silu::kByQuotient,
     .activation = true},
    {.text = "computes each step of SiLU, and the product with up, in",
     .gate = true,
     .silu = RoundedSteps::Silu::kByQuotient,
     .activation = true,
     .product = true},
};

float rounded_silu(float x, RoundedSteps::Silu how, const Rounding& rounding) {
  const float power = std::exp(-x);
  if (how == RoundedSteps::Silu::kBySigmoid) return x * rounding.round(1.0F / (1.0F + power));
  return x / rounding.round(1.0F + rounding.round(power));
}

void activate_rounded(const RoundedSteps& steps, const Rounding& rounding, Activation activation,
                      const ActivateCall& call, Kernels& kernels) {
  const auto round = [&](bool is_rounded, float value) {
    return is_rounded ? rounding.round(value) : value;
  };
  std::vector<float> gate(call.x, call.x + call.count);
  for (float& value : gate) value = round(steps.gate, value);
  if (steps.silu == RoundedSteps::Silu::kAtOnce) {
    ActivateCall of_gate = call;
    of_gate.x = of_gate.out = gate.data();
    of_gate.up = nullptr;
    activate(of_gate, activation, kernels);
  } else {
    for (float& value : gate) value = rounded_silu(value, steps.silu, rounding);
  }
  for (int64_t i = 0; i < call.count; ++i) {
    const float activated = round(steps.activation, gate[static_cast<size_t>(i)]);
    call.out[i] = call.up == nullptr
                      ? activated
                      : round(steps.product, activated * round(steps.product, call.up[i]));
  }
}

// Without a gate the rounding of what the activation gives is that of the result.
Mistake rounded_activation(const RoundedSteps& steps, const Rounding& rounding) {
  return {.cause = "rounding",
          .text = plainly(fmt::format("{} {}", steps.text, rounding.type)),
          .edit = {.activate =
                       [steps, rounding](const OpContext& context, const ActivateCall& call,
                                         Kernels& kernels) {
                         activate_rounded(steps, rounding, *context.network.activation, call,
                                          kernels);
                       }},
          .possible = [steps](const Network& network, Op) {
            const bool is_gates = network.activation != Activation::kClampedSwiglu;
            const bool is_silu = network.activation == Activation::kSilu;
            return is_gates && (is_silu || steps.silu == RoundedSteps::Silu::kAtOnce) &&
                   (steps.gate || network.gated());
          }};
}

double inverse_softplus(double x) {
  return x > 20.0 ? x : std::log(std::expm1(x));
}

// xIELU with other numbers than its layer's.
Mistake xielu_mistake(const char* text, Xielu (*other)(const Xielu&), const char* fault,
                      const char* what) {
  return {.cause = "activation_kind",
          .text = plainly(text),
          .edit = {.activate =
                       [other](const OpContext& context, ActivateCall call, Kernels& kernels) {
                         call.xielu = other(call.xielu);
                         activate(call, *context.network.activation, kernels);
                       }},
          .possible = [](const Network& network,
                         Op) { return network.activation == Activation::kXielu; },
          .faults = {{.name = fault,
                      .group = FaultGroup::kFeedForward,
                      .what = what,
                      .at = Checkpoint::kFfnAct,
                      .unsupported_reason = needs("xIELU",
                                                  [](const ModelConfig& config) {
                                                    return config.activation ==
                                                           ActivationKind::kXielu;
                                                  }),
                      .in_arguments = true}}};
}

}  // namespace

std::vector<Mistake> feed_forward_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Activation other : kActivations) {
    // Only a layer of xIELU has its numbers.
    if (other != Activation::kXielu) mistakes.push_back(activation_mistake(other));
  }
  for (const Rounding& rounding : kRoundings) {
    for (const RoundedSteps& steps : kRoundedSteps) {
      mistakes.push_back(rounded_activation(steps, rounding));
    }
  }
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
  const UnsupportedReason needs_gate_alone =
      needs("gate that is activated alone", [](const ModelConfig& config) {
        return config.find(Checkpoint::kFfnGate) != nullptr &&
               config.activation != ActivationKind::kClampedSwiglu;
      });
  mistakes.push_back({.cause = "activation_kind",
                      .text = plainly("activates up as well as gate"),
                      .edit = {.activate = activate_both},
                      .possible =
                          [](const Network& network, Op) {
                            return network.gated() &&
                                   network.activation != Activation::kClampedSwiglu;
                          },
                      .faults = {{"activation-of-both", FaultGroup::kFeedForward,
                                  "the activation is applied to up as well as to the gate",
                                  Checkpoint::kFfnAct, needs_gate_alone}}});
  mistakes.push_back({.cause = "activation_kind",
                      .text = plainly("activates the product of gate and up, not the gate"),
                      .edit = {.activate = activate_product},
                      .possible =
                          [](const Network& network, Op) {
                            return network.gated() &&
                                   network.activation != Activation::kClampedSwiglu;
                          },
                      .faults = {{"activation-of-product", FaultGroup::kFeedForward,
                                  "the activation is applied to the product of gate and up",
                                  Checkpoint::kFfnAct, needs_gate_alone}}});
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
  mistakes.push_back(swiglu_mistake("takes 0 for the limit of gate and up", {.limit = 0.0}));
  mistakes.push_back(xielu_mistake(
      "takes the alphas of xIELU as they are stored, without a softplus",
      [](const Xielu& right) {
        Xielu wrong = right;
        wrong.alpha_p = static_cast<float>(inverse_softplus(right.alpha_p));
        wrong.alpha_n =
            static_cast<float>(right.beta + inverse_softplus(right.alpha_n - right.beta));
        return wrong;
      },
      "xielu-without-softplus", "xIELU's alphas are taken without their softplus"));
  mistakes.push_back(xielu_mistake(
      "does not add beta to the alpha of xIELU below 0",
      [](const Xielu& right) {
        Xielu wrong = right;
        wrong.alpha_n -= right.beta;
        return wrong;
      },
      "xielu-alpha-without-beta", "beta is not added to xIELU's alpha below 0"));
  mistakes.push_back(xielu_mistake(
      "takes each alpha of xIELU for the other",
      [](const Xielu& right) {
        Xielu wrong = right;
        wrong.alpha_p = right.alpha_n - right.beta;
        wrong.alpha_n = right.beta + right.alpha_p;
        return wrong;
      },
      "xielu-alphas-swapped", "xIELU's two alphas are swapped"));
  for (Mistake& mistake : mistakes) {  // of feed-forwards, whose activation is the network's
    mistake.possible = [possible = std::move(mistake.possible)](const Network& network, Op op) {
      return !network.has_own_activation(op) && (!possible || possible(network, op));
    };
  }
  return mistakes;
}

}  // namespace assay::mistakes
