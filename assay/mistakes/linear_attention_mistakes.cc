#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mistakes/gate_mistakes.h"
#include "assay/mistakes/mistake.h"

// Of the gated delta rule and what stands around it, and of attention whose result has a gate.
namespace assay::mistakes {
namespace {

Injected delta_fault(std::string name, FaultGroup group, std::string what) {
  return {std::move(name), group, std::move(what), Checkpoint::kDelta, needs_linear_attention};
}

// With other numbers of each head in the place of `a` or `dt`.
KernelHooks with_vector(const float* DeltaCall::*vector, float (*edit)(float)) {
  return {.delta = [=](const OpContext&, DeltaCall call, Kernels& kernels) {
    std::vector<float> values(call.*vector, call.*vector + call.shape.n_value_heads);
    std::ranges::transform(values, values.begin(), edit);
    call.*vector = values.data();
    kernels.run(call);
  }};
}

KernelHooks edited(void (*edit)(DeltaCall& call)) {
  return {.delta = [edit](const OpContext&, DeltaCall call, Kernels& kernels) {
    edit(call);
    kernels.run(call);
  }};
}

// All of beta is `value`, of which the rule takes the sigmoid.
void run_with_beta(float value, DeltaCall call, Kernels& kernels) {
  const std::vector<float> beta(static_cast<size_t>(call.n_tokens * call.shape.n_value_heads),
                                value);
  call.beta = beta.data();
  kernels.run(call);
}

// The call of its token `t` alone.
DeltaCall row_of(const DeltaCall& call, int64_t t) {
  DeltaCall row = call;
  row.qkv += t * call.shape.qkv_width();
  row.alpha += t * call.shape.n_value_heads;
  row.beta += t * call.shape.n_value_heads;
  row.first_position += t;
  row.n_tokens = 1;
  row.out += t * call.shape.value_width();
  return row;
}

// The state is 0 before each position for which `is_lost` holds.
using IsLost = std::function<bool(int64_t position, const OpContext& context)>;

KernelHooks with_losses(IsLost is_lost) {
  return {.delta = [is_lost = std::move(is_lost)](const OpContext& context, const DeltaCall& call,
                                                  Kernels& kernels) {
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      DeltaCall row = row_of(call, t);
      if (is_lost(row.first_position, context)) row.first_position = 0;
      kernels.run(row);
    }
  }};
}

bool knows_prompt(const Network& network, Op) {
  return network.n_prompt > 0;
}

// Value heads read key heads as they do in files of the other order.
Mistake other_key_heads(bool grouped, const char* text, const char* fault, const char* what) {
  const auto can = [grouped](const DeltaShape& shape) {
    return shape.grouped == grouped && shape.n_key_heads > 1 &&
           shape.n_value_heads > shape.n_key_heads;
  };
  return {
      .cause = "gqa_map",
      .text = plainly(text),
      .edit = edited([](DeltaCall& call) { call.shape.grouped = !call.shape.grouped; }),
      .possible = [can](const Network& network, Op) { return can(network.model->config().delta); },
      .faults = {{fault, FaultGroup::kAttention, what, Checkpoint::kDelta,
                  needs(grouped ? "value heads in groups" : "groups of value heads",
                        [can](const ModelConfig& config) { return can(config.delta); })}}};
}

void run_unscaled(const OpContext&, const DeltaCall& call, Kernels& kernels) {
  kernels.run(call);
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(call.shape.key_dim)));
  const int64_t count = call.n_tokens * call.shape.value_width();
  for (int64_t i = 0; i < count; ++i) call.out[i] *= root;
}

// Queries and keys divided by the root of their mean square, not of the sum of their squares.
void run_with_mean_square(const OpContext&, DeltaCall call, Kernels& kernels) {
  const DeltaShape& shape = call.shape;
  const int64_t width = shape.qkv_width();
  const int64_t n_normed = 2 * shape.n_key_heads;  // queries, then keys
  std::vector<float> qkv(call.qkv, call.qkv + call.n_tokens * width);
  for (int64_t i = 0; i < call.n_tokens * n_normed; ++i) {
    float* head = qkv.data() + i / n_normed * width + i % n_normed * shape.key_dim;
    double squares = 0;
    for (int64_t k = 0; k < shape.key_dim; ++k) squares += static_cast<double>(head[k]) * head[k];
    const double root = std::sqrt(squares / static_cast<double>(shape.key_dim));
    for (int64_t k = 0; k < shape.key_dim; ++k) head[k] = static_cast<float>(head[k] / root);
  }
  call.qkv = qkv.data();
  call.l2_norm = false;
  kernels.run(call);
}

std::string needs_gated_attention(const Model& model) {
  return model.config().find(Checkpoint::kGatedAttn) != nullptr ? "" : "its attention has no gate";
}

// The half of each head that is not the op's.
void run_with_other_part(const OpContext&, HeadsCall call, Kernels& kernels) {
  call.parts.own_first = call.parts.own_dim - call.parts.own_count - call.parts.own_first;
  kernels.run(call);
}

// As if all heads were one.
void run_whole(const OpContext&, HeadsCall call, Kernels& kernels) {
  call.parts.own_dim *= call.n_heads;
  call.parts.own_first *= call.n_heads;
  call.parts.own_count *= call.n_heads;
  call.n_heads = 1;
  kernels.run(call);
}

// Beta or alpha of a product that holds those of each key head together.
bool is_delta_gate(const Network& network, Op op) {
  return network.model->config().delta.n_key_heads > 1 &&
         (op.checkpoint == Checkpoint::kLinearB || op.checkpoint == Checkpoint::kLinearA);
}

Injected fused_gates_fault(const char* name, const char* what) {
  return {.name = name,
          .group = FaultGroup::kAttention,
          .what = what,
          .at = Checkpoint::kLinearB,
          .unsupported_reason = needs("beta and alpha in one product",
                                      [](const ModelConfig& config) {
                                        return config.find(Checkpoint::kLinearBa) != nullptr &&
                                               config.delta.n_key_heads > 1;
                                      }),
          .also = {Checkpoint::kLinearA}};
}

std::vector<Mistake> gate_mistakes() {
  return {
      other_gate(Checkpoint::kLinearConv, "does not pass the convolution's result through SiLU",
                 Activation::kIdentity, "linear-conv-without-silu",
                 "the convolution of linear attention does not end with SiLU", needs_linear_conv),
      other_gate(Checkpoint::kDeltaNorm, "gates the norm by a sigmoid in place of SiLU",
                 Activation::kSigmoid, "delta-gate-sigmoid",
                 "the norm of linear attention is gated by a sigmoid, not SiLU",
                 needs_linear_attention),
      missing_gate(Checkpoint::kDeltaNorm, "does not multiply the norm by its gate",
                   "delta-gate-missing", "the norm of linear attention is not gated",
                   needs_linear_attention),
      other_gate(Checkpoint::kGatedAttn, "gates attention by SiLU in place of a sigmoid",
                 Activation::kSilu, "attention-gate-silu",
                 "attention is gated by SiLU, not by a sigmoid", needs_gated_attention),
      other_gate(Checkpoint::kGatedAttn, "multiplies attention by its gate without a sigmoid",
                 Activation::kIdentity, "attention-gate-without-sigmoid",
                 "attention is multiplied by its gate as it is", needs_gated_attention),
      missing_gate(Checkpoint::kGatedAttn, "does not multiply attention by its gate",
                   "attention-gate-missing", "attention is not gated", needs_gated_attention),
      {.cause = "head_order",
       .text = plainly("takes each head's gate before its query from their product"),
       .edit = {.heads = run_with_other_part},
       .possible =
           [](const Network&, Op op) {
             return op.checkpoint == Checkpoint::kQ || op.checkpoint == Checkpoint::kAttnGate;
           },
       .faults = {{.name = "attention-gate-first",
                   .group = FaultGroup::kAttention,
                   .what = "each head's gate is taken for its query, and the query for the gate",
                   .at = Checkpoint::kQ,
                   .unsupported_reason = needs_gated_attention,
                   .also = {Checkpoint::kAttnGate}}}},
      {.cause = "head_order",
       .text = plainly("takes each key head's alpha before its beta from their product"),
       .edit = {.heads = run_with_other_part},
       .possible = is_delta_gate,
       .faults = {fused_gates_fault("delta-alpha-first",
                                    "alpha of linear attention is taken for beta, and beta for "
                                    "alpha")}},
      {.cause = "fused_order",
       .text = plainly("reads the product of beta and alpha as if it held each whole"),
       .edit = {.heads = run_whole},
       .possible = is_delta_gate,
       .faults = {fused_gates_fault("delta-gates-read-whole",
                                    "the product of beta and alpha is read as if it held each "
                                    "whole")}}};
}

}  // namespace

Mistake other_gate(Checkpoint at, const char* text, Activation other, const char* fault,
                   const char* what, UnsupportedReason needs) {
  return {.cause = "activation_kind",
          .text = plainly(text),
          .edit = {.activate = [other](const OpContext&, const ActivateCall& call,
                                       Kernels& kernels) { activate(call, other, kernels); }},
          .possible = [at](const Network&, Op op) { return op.checkpoint == at; },
          .faults = {{.name = fault,
                      .group = FaultGroup::kAttention,
                      .what = what,
                      .at = at,
                      .unsupported_reason = std::move(needs)}}};
}

Mistake missing_gate(Checkpoint at, const char* text, const char* fault, const char* what,
                     UnsupportedReason needs) {
  return {.cause = "activation_kind",
          .text = plainly(text),
          .edit = {.activate = [](const OpContext&, const ActivateCall& call,
                                  Kernels&) { std::copy_n(call.up, call.count, call.out); }},
          .possible = [at](const Network&, Op op) { return op.checkpoint == at; },
          .faults = {{.name = fault,
                      .group = FaultGroup::kAttention,
                      .what = what,
                      .at = at,
                      .unsupported_reason = std::move(needs)}}};
}

std::vector<Mistake> linear_attention_mistakes() {
  std::vector<Mistake> mistakes = {
      {.cause = "delta_rule",
       .text = plainly("lets the state of linear attention grow: its decay has the wrong sign"),
       .edit = with_vector(&DeltaCall::a, [](float value) { return -value; }),
       .faults = {delta_fault("delta-decay-sign", FaultGroup::kAttention,
                              "the decay of linear attention has the wrong sign")}},
      {.cause = "delta_rule",
       .text = plainly("lets the state of linear attention never decay"),
       .edit = with_vector(&DeltaCall::a, [](float) { return 0.0F; }),
       .faults = {delta_fault("delta-decay-missing", FaultGroup::kAttention,
                              "the state of linear attention does not decay")}},
      {.cause = "delta_rule",
       .text = plainly("takes A_log itself in the place of -e^A_log in the decay"),
       .edit = with_vector(&DeltaCall::a, [](float value) { return std::log(-value); }),
       .faults = {delta_fault("delta-decay-log", FaultGroup::kAttention,
                              "A_log is taken for -e^A_log in the decay of linear attention")}},
      {.cause = "delta_rule",
       .text = plainly("takes -e^A_log, which a file may have, for A_log in the decay"),
       .edit = with_vector(&DeltaCall::a, [](float value) { return -std::exp(value); }),
       .faults = {delta_fault("delta-decay-twice", FaultGroup::kAttention,
                              "-e^A_log is taken for A_log in the decay of linear attention")}},
      {.cause = "bias_missing",
       .text = plainly("leaves out dt_bias, which is added before the softplus of the decay"),
       .edit = with_vector(&DeltaCall::dt, [](float) { return 0.0F; }),
       .faults = {delta_fault("delta-dt-missing", FaultGroup::kAttention,
                              "dt_bias is not added to the decay of linear attention")}},
      {.cause = "activation_kind",
       .text = plainly("takes beta as it is, without a sigmoid"),
       .edit = edited([](DeltaCall& call) { call.sigmoid_beta = false; }),
       .faults = {delta_fault("delta-beta-without-sigmoid", FaultGroup::kAttention,
                              "beta of linear attention does not go through a sigmoid")}},
      {.cause = "delta_rule",
       .text = plainly("writes each value whole, as if beta were 1"),
       .edit = {.delta = [](const OpContext&, const DeltaCall& call,
                            Kernels& kernels) { run_with_beta(100.0F, call, kernels); }},
       .faults = {delta_fault("delta-beta-missing", FaultGroup::kAttention,
                              "linear attention writes each value with a beta of 1")}},
      {.cause = "qk_norm",
       .text = plainly("takes queries and keys of linear attention without an L2 norm"),
       .edit = edited([](DeltaCall& call) { call.l2_norm = false; }),
       .faults = {delta_fault("delta-l2-norm-missing", FaultGroup::kNorm,
                              "queries and keys of linear attention have no L2 norm")}},
      {.cause = "qk_norm",
       .text = plainly("normalises queries and keys of linear attention by their mean square, not "
                       "by the sum of their squares"),
       .edit = {.delta = run_with_mean_square}},
      {.cause = "attention_scale",
       .text = plainly("does not divide queries of linear attention by the root of their size"),
       .edit = {.delta = run_unscaled},
       .faults = {delta_fault("delta-scale-missing", FaultGroup::kAttention,
                              "queries of linear attention are not scaled")}},
      other_key_heads(false, "gives the value heads key heads in groups, in place of each in turn",
                      "delta-heads-in-groups",
                      "value heads read key heads in groups, not each in turn"),
      other_key_heads(true, "gives the value heads each key head in turn, in place of groups",
                      "delta-heads-in-turn",
                      "value heads read each key head in turn, not in groups"),
      {.cause = "kv_shift",
       .text = plainly("takes each token for the first: its state is lost"),
       .edit = with_losses([](int64_t, const OpContext&) { return true; }),
       .faults = {delta_fault("delta-without-state", FaultGroup::kCache,
                              "linear attention has no state")}},
      {.cause = "kv_shift",
       .text = plainly("loses the state of linear attention after the prompt"),
       .edit = with_losses([](int64_t position, const OpContext& context) {
         return position == context.n_together;
       }),
       .possible = knows_prompt,
       .faults = {delta_fault("delta-state-lost", FaultGroup::kCache,
                              "the state of linear attention is lost after the prompt")}}};
  for (Mistake& mistake : gate_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
