#include <algorithm>

#include "assay/mistakes/gate_mistakes.h"
#include "assay/mistakes/mistake.h"

// Of layers that have a state space model beside attention, whose sum goes to the residual stream.
namespace assay::mistakes {
namespace {

// The sum without one of the two.
Mistake missing_mistake(const char* text, const float* AddCall::*kept, const char* name,
                        const char* what) {
  return {.cause = "mixer",
          .text = plainly(text),
          .edit = {.add = [kept](const OpContext&, const AddCall& call,
                                 Kernels&) { std::copy_n(call.*kept, call.count, call.out); }},
          .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kMixerOut; },
          .faults = {{.name = name,
                      .group = FaultGroup::kAttention,
                      .what = what,
                      .at = Checkpoint::kMixerOut,
                      .unsupported_reason = needs("state space model beside attention",
                                                  [](const ModelConfig& config) {
                                                    return config.find(Checkpoint::kMixerOut) !=
                                                           nullptr;
                                                  }),
                      .in_every_layer = true}}};
}

std::string needs_gate_without_norm(const Model& model) {
  return model.config().find(Checkpoint::kSsmGated) != nullptr
             ? ""
             : "it has no state space model that is gated and not normalised";
}

}  // namespace

std::vector<Mistake> mixer_mistakes() {
  return {
      missing_mistake("leaves out what the state space model beside attention gives", &AddCall::b,
                      "mixer-ssm-missing",
                      "what a state space model beside attention gives is not added"),
      missing_mistake("leaves out what attention beside a state space model gives", &AddCall::a,
                      "mixer-attention-missing",
                      "what attention beside a state space model gives is not added"),
      other_gate(Checkpoint::kSsmGated, "gates by a sigmoid in place of SiLU", Activation::kSigmoid,
                 "ssm-gate-alone-sigmoid",
                 "what a state space model gives without a norm is gated by a sigmoid",
                 needs_gate_without_norm),
      missing_gate(Checkpoint::kSsmGated, "does not multiply by the gate", "ssm-gate-alone-missing",
                   "what a state space model gives without a norm is not gated",
                   needs_gate_without_norm)};
}

}  // namespace assay::mistakes
