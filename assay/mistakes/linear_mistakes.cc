#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kLinear;

// The product with the weights and bias of `a` at `b`, and the reverse.
KernelHooks exchanged(Checkpoint a, Checkpoint b) {
  return {.matmul = [a, b](const OpContext& context, MatmulCall call, Kernels& kernels) {
    const Op op = context.op();
    const Linear& other = *context.network.linear({op.checkpoint == a ? b : a, op.layer});
    call.w = other.weight;
    call.bias = other.bias;
    kernels.run(call);
  }};
}

}  // namespace

std::vector<Mistake> linear_mistakes() {
  constexpr Checkpoint kGate = Checkpoint::kFfnGate;
  constexpr Checkpoint kUp = Checkpoint::kFfnUp;
  return {
      {.cause = "gate_up_swapped",
       .text = plainly("computes gate with the weights of up, and up with those of gate"),
       .edit = exchanged(kGate, kUp),
       .possible =
           [](const Network& network, Op op) {
             return network.gated() && (op.checkpoint == kGate || op.checkpoint == kUp);
           },
       .faults = {{.name = "gate-up-swapped",
                   .group = FaultGroup::kFeedForward,
                   .what = "gate and up are taken for each other",
                   .at = kGate,
                   .unsupported_reason = needs_gate,
                   .also = {kUp},
                   .in_arguments = true}}},
      {.edit = exchanged(Checkpoint::kK, Checkpoint::kV),
       .faults = {{.name = "k-v-weights-swapped",
                   .group = kGroup,
                   .what = "the weights of K and V are taken for each other",
                   .at = Checkpoint::kK,
                   .also = {Checkpoint::kV},
                   .in_arguments = true}}},
  };
}

}  // namespace assay::mistakes
