#include <algorithm>
#include <cmath>
#include <numbers>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kFeedForward;
constexpr FaultGroup kResidual = FaultGroup::kResidual;

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}
double gelu_exact(double x) {
  return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
}
double gelu_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_sigmoid(double x) {
  return x / (1.0 + std::exp(-1.702 * x));
}
double relu(double x) {
  return std::max(x, 0.0);
}

Fault in_activation(FaultText text, UnsupportedReason unsupported_reason, Hook<ActivateCall> hook) {
  return in_op<ActivateCall>(std::move(text), Checkpoint::kFfnAct, std::move(unsupported_reason),
                             &KernelHooks::activate, std::move(hook));
}

// Another function of the gate, or of x where there is no gate.
Hook<ActivateCall> with_function(double (*function)(double)) {
  return [function](const OpContext&, const ActivateCall& call, Kernels&) {
    for (int64_t i = 0; i < call.count; ++i) {
      const double value = function(static_cast<double>(call.x[i]));
      call.out[i] = static_cast<float>(call.up == nullptr ? value : value * call.up[i]);
    }
  };
}

std::vector<Fault> activation_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_weights(
      {"gate-up-swapped", kGroup, "gate and up are taken for each other", "gate_up_swapped"},
      Checkpoint::kFfnGate, needs_gate, [](const FaultSite&, Layer& layer, Injection&) {
        std::swap(layer.linear(Checkpoint::kFfnGate), layer.linear(Checkpoint::kFfnUp));
      }));
  faults.push_back(in_activation(
      {"activation-of-up", kGroup, "SiLU is applied to up, and not to the gate", "gate_up_swapped"},
      needs_gate, [](const OpContext&, ActivateCall call, Kernels& kernels) {
        std::swap(call.x, call.up);
        kernels.run(call);
      }));
  faults.push_back(in_activation({"gelu-for-silu", kGroup, "GELU for SiLU", "activation_kind"},
                                 needs_gate, with_function(gelu_tanh)));
  faults.push_back(in_activation({"relu-for-silu", kGroup, "ReLU for SiLU", "activation_kind"},
                                 needs_gate, with_function(relu)));
  faults.push_back(in_activation({"silu-for-gelu", kGroup, "SiLU for GELU", "activation_kind"},
                                 needs_gelu, with_function(silu)));
  faults.push_back(in_activation(
      {"gelu-exact-for-tanh", kGroup, "GELU by erf for GELU by tanh", "activation_kind"},
      needs_gelu, with_function(gelu_exact)));
  faults.push_back(in_activation(
      {"gelu-sigmoid-for-tanh", kGroup, "GELU by a sigmoid of 1.702 x", "activation_kind"},
      needs_gelu, with_function(gelu_sigmoid)));
  faults.push_back(
      in_activation({"activation-missing", kGroup, "no activation function", "activation_kind"},
                    any_model, with_function([](double x) { return x; })));
  faults.push_back(in_activation({"gate-not-multiplied", kGroup, "up is not multiplied in"},
                                 needs_gate,
                                 [](const OpContext&, const ActivateCall& call, Kernels&) {
                                   for (int64_t i = 0; i < call.count; ++i) {
                                     call.out[i] = static_cast<float>(silu(call.x[i]));
                                   }
                                 }));
  return faults;
}

// x and branch are multiplied by these and added.
Fault in_residual(const std::string& name, const std::string& what, Checkpoint at, float x,
                  float branch) {
  return in_op<AddCall>({name, kResidual, what, "residual"}, at, any_model, &KernelHooks::add,
                        [x, branch](const OpContext&, const AddCall& call, Kernels&) {
                          for (int64_t i = 0; i < call.count; ++i) {
                            call.out[i] = x * call.a[i] + branch * call.b[i];
                          }
                        });
}

std::vector<Fault> residual_faults() {
  const Checkpoint attn = Checkpoint::kAttnResidual;
  const Checkpoint ffn = Checkpoint::kOutput;
  return {
      in_residual("residual-attn-dropped", "x is not added to the attention's output", attn, 0, 1),
      in_residual("residual-attn-doubled", "x is added to the attention's output twice", attn, 2,
                  1),
      in_residual("residual-ffn-dropped", "x is not added to the feed-forward's output", ffn, 0, 1),
      in_residual("residual-ffn-doubled", "x is added to the feed-forward's output twice", ffn, 2,
                  1),
      in_residual("branch-attn-dropped", "the attention's output is not added", attn, 1, 0),
      in_residual("branch-ffn-doubled", "the feed-forward's output is added twice", ffn, 1, 2)};
}

}  // namespace

std::vector<Fault> feed_forward_faults() {
  std::vector<Fault> faults = activation_faults();
  for (Fault& fault : residual_faults()) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace assay::mutate
