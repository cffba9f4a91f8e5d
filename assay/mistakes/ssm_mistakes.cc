#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mistakes/gate_mistakes.h"
#include "assay/mistakes/mistake.h"
#include "kernels/gates.h"

// Of the state space model of Mamba-2, and of the gated norm behind it.
namespace assay::mistakes {
namespace {

Injected ssm_fault(std::string name, FaultGroup group, std::string what) {
  return {std::move(name), group, std::move(what), Checkpoint::kSsm, needs_ssm};
}

// With other numbers in the place of `a`, `dt_bias` or `d`.
KernelHooks with_numbers(const float* SsmCall::*vector, float (*edit)(float)) {
  return {.ssm = [=](const OpContext&, SsmCall call, Kernels& kernels) {
    const int64_t count = vector == &SsmCall::a ? call.shape.n_decays() : call.shape.n_value_heads;
    std::vector<float> values(call.*vector, call.*vector + count);
    std::ranges::transform(values, values.begin(), edit);
    call.*vector = values.data();
    kernels.run(call);
  }};
}

KernelHooks with_settings(void (*edit)(SsmCall& call)) {
  return {.ssm = [edit](const OpContext&, SsmCall call, Kernels& kernels) {
    edit(call);
    kernels.run(call);
  }};
}

// The step of each token and head.
std::vector<float> steps_of(const SsmCall& call) {
  const int64_t heads = call.shape.n_value_heads;
  std::vector<float> steps(call.dt, call.dt + call.n_tokens * heads);
  for (int64_t i = 0; i < std::ssize(steps); ++i) {
    float& step = steps[static_cast<size_t>(i)];
    step = static_cast<float>(gates::softplus(static_cast<double>(step) + call.dt_bias[i % heads]));
  }
  return steps;
}

// As published configs state them, for the start of training.
void run_with_limited_steps(const OpContext&, SsmCall call, Kernels& kernels) {
  std::vector<float> steps = steps_of(call);
  for (float& step : steps) step = std::clamp(step, 0.001F, 0.1F);
  const std::vector<float> none(static_cast<size_t>(call.shape.n_value_heads));
  call.dt = steps.data();
  call.dt_bias = none.data();
  call.softplus = false;
  kernels.run(call);
}

// S = e^(a step) S + k v^T: with values that are divided by the step, but for d.
void run_without_step_of_input(const OpContext&, SsmCall call, Kernels& kernels) {
  const DeltaShape& shape = call.shape;
  const std::vector<float> steps = steps_of(call);
  const std::vector<float> none(static_cast<size_t>(shape.n_value_heads));
  const SsmInputs in = call.in;
  const float* const d = call.d;
  const int64_t width = shape.value_width();
  std::vector<float> values(static_cast<size_t>(call.n_tokens * width));
  const auto each = [&](const auto& edit) {
    for (int64_t i = 0; i < call.n_tokens * width; ++i) {
      const int64_t head = i % width / shape.value_dim;
      edit(i, in.values[i / width * in.value_stride + i % width], i / width * shape.n_value_heads,
           head);
    }
  };
  each([&](int64_t i, float value, int64_t step, int64_t head) {
    values[static_cast<size_t>(i)] = value / steps[static_cast<size_t>(step + head)];
  });
  call.in.values = values.data();
  call.in.value_stride = width;
  call.d = none.data();
  kernels.run(call);
  each([&](int64_t i, float value, int64_t, int64_t head) { call.out[i] += d[head] * value; });
}

void run_with_b_and_c_swapped(const OpContext&, SsmCall call, Kernels& kernels) {
  std::swap(call.in.keys, call.in.queries);
  kernels.run(call);
}

// The call of its token `t` alone.
SsmCall token_of(const SsmCall& call, int64_t t) {
  SsmCall row = call;
  row.in = call.in.from(t);
  row.dt += t * call.shape.n_value_heads;
  row.first_position += t;
  row.n_tokens = 1;
  row.out += t * call.shape.value_width();
  return row;
}

// With one decay a head, the first.
void run_with_first_decays(const OpContext&, SsmCall call, Kernels& kernels) {
  const DeltaShape& shape = call.shape;
  std::vector<float> a(static_cast<size_t>(shape.n_decays()));
  for (int64_t i = 0; i < shape.n_decays(); ++i) {
    a[static_cast<size_t>(i)] = call.a[i - i % shape.key_dim];
  }
  call.a = a.data();
  kernels.run(call);
}

bool has_decays_of_keys(const ModelConfig& config) {
  return config.delta.own_decays && config.delta.key_dim > 1;
}

// The state is 0 before each position for which `is_lost` holds.
KernelHooks losing_state(std::function<bool(int64_t position, const OpContext& context)> is_lost) {
  return {.ssm = [is_lost = std::move(is_lost)](const OpContext& context, const SsmCall& call,
                                                Kernels& kernels) {
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      SsmCall row = token_of(call, t);
      if (is_lost(row.first_position, context)) row.first_position = 0;
      kernels.run(row);
    }
  }};
}

// The state of the sequence before, which ended with these tokens, is still there at position 0.
void run_with_old_state(const OpContext& context, const SsmCall& call, Kernels& kernels) {
  if (call.first_position == 0) {
    SsmCall before = call;
    if (context.n_together > 0) before.n_tokens = std::min(call.n_tokens, context.n_together);
    std::vector<float> ignored(static_cast<size_t>(before.n_tokens * call.shape.value_width()));
    before.out = ignored.data();
    kernels.run(before);
    SsmCall first = token_of(call, 0);
    first.first_position = 1;  // its state is read
    kernels.run(first);
    for (int64_t t = 1; t < call.n_tokens; ++t) kernels.run(token_of(call, t));
  } else {
    kernels.run(call);
  }
}

bool has_several_groups(const ModelConfig& config) {
  return config.delta.n_key_heads > 1 && config.delta.n_value_heads > config.delta.n_key_heads;
}

bool is_gated_norm(const Network&, Op op) {
  return op.checkpoint == Checkpoint::kSsmNorm;
}

// The gate of what has been normalised without weights, which follow.
void run_gate_of_normed(const OpContext& context, ActivateCall call, Kernels& kernels) {
  NormCall norm = context.network.norm_call(context.op());
  const std::vector<float> ones(static_cast<size_t>(norm.width), 1.0F);
  norm.weight = ones.data();
  norm.n_weights = 1;
  norm.n_tokens = call.count / norm.width;
  norm.x = call.up;
  norm.out = call.out;
  kernels.run(norm);
  call.kind = ActivationKind::kSilu;
  call.up = call.out;
  kernels.run(call);
}

void run_weights_alone(const OpContext&, const NormCall& call, Kernels&) {
  const int64_t n_weights = call.n_weights * call.width;
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    call.out[i] = call.x[i] * call.weight[i % n_weights];
  }
}

// In `count` groups.
void run_in_groups(const OpContext& context, NormCall call, Kernels& kernels) {
  const auto count = static_cast<int64_t>(context.parameter);
  const int64_t whole = call.width * call.n_weights;
  if (count < 1 || whole % count != 0) return kernels.run(call);
  call.n_tokens = call.n_tokens * call.width / (whole / count);
  call.width = whole / count;
  call.x_width = 0;
  call.n_weights = count;
  kernels.run(call);
}

// Group counts that networks have, and one a head; without the right one.
std::vector<double> other_group_counts(const Network& network) {
  if (network.model == nullptr) return {};
  const DeltaShape& shape = network.model->config().delta;
  std::vector<double> counts;
  for (const int64_t count :
       {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{8}, int64_t{16}, shape.n_value_heads}) {
    if (count == shape.n_key_heads || shape.value_width() % count != 0) continue;
    counts.push_back(static_cast<double>(count));
  }
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  return counts;
}

std::vector<Mistake> norm_of_ssm_mistakes() {
  return {
      {.cause = "norm_order",
       .text = plainly("normalises before it multiplies by the gate, not after"),
       .edit = {.norm = run_weights_alone, .activate = run_gate_of_normed},
       .possible = is_gated_norm,
       .faults = {{"ssm-norm-before-gate", FaultGroup::kNorm,
                   "what a state space model gives is normalised before it is gated",
                   Checkpoint::kSsmNorm, needs_ssm}}},
      {.cause = "norm_groups",
       .text =
           [](const Network&, double count) {
             return count == 1.0 ? std::string("normalises all heads together, not in groups")
                                 : "normalises in " + std::to_string(static_cast<int>(count)) +
                                       " groups of heads";
           },
       .edit = {.norm = run_in_groups},
       .possible = is_gated_norm,
       .grid = other_group_counts,
       .faults = {{.name = "ssm-norm-other-groups",
                   .group = FaultGroup::kNorm,
                   .what =
                       "what a state space model gives is normalised in another number of groups",
                   .at = Checkpoint::kSsmNorm,
                   .unsupported_reason = needs_ssm,
                   .parameter =
                       [](const OpContext& context) {
                         return other_group_counts(context.network).front();
                       }}}},
      other_gate(Checkpoint::kSsmNorm, "gates by a sigmoid in place of SiLU", Activation::kSigmoid,
                 "ssm-gate-sigmoid", "what a state space model gives is gated by a sigmoid",
                 needs_ssm),
      missing_gate(Checkpoint::kSsmNorm, "does not multiply by the gate", "ssm-gate-missing",
                   "what a state space model gives is not gated", needs_ssm)};
}

}  // namespace

std::vector<Mistake> ssm_mistakes() {
  std::vector<Mistake> mistakes = {
      {.cause = "bias_missing",
       .text = plainly("leaves out dt_bias, which is added before the softplus of the steps"),
       .edit = with_numbers(&SsmCall::dt_bias, [](float) { return 0.0F; }),
       .faults = {ssm_fault("ssm-dt-bias-missing", FaultGroup::kAttention,
                            "dt_bias is not added to the steps of a state space model")}},
      {.cause = "activation_kind",
       .text = plainly("takes the steps as they are, without a softplus"),
       .edit = with_settings([](SsmCall& call) { call.softplus = false; }),
       .faults = {ssm_fault("ssm-softplus-missing", FaultGroup::kAttention,
                            "steps of a state space model do not go through a softplus")}},
      {.cause = "ssm",
       .text = plainly("limits the steps to 0.001 to 0.1, which are time_step_min and "
                       "time_step_max, for the start of training"),
       .edit = {.ssm = run_with_limited_steps},
       .faults = {ssm_fault("ssm-steps-limited", FaultGroup::kAttention,
                            "steps of a state space model are limited to 0.001 to 0.1")}},
      {.cause = "ssm",
       .text = plainly("leaves out D, by which the values are multiplied and added"),
       .edit = with_numbers(&SsmCall::d, [](float) { return 0.0F; }),
       .faults = {ssm_fault("ssm-skip-missing", FaultGroup::kAttention,
                            "D times the values is not added to what a state space model gives")}},
      {.cause = "ssm",
       .text = plainly("takes A_log itself in the place of -e^A_log in the decay"),
       .edit = with_numbers(&SsmCall::a, [](float value) { return std::log(-value); }),
       .faults = {ssm_fault("ssm-decay-log", FaultGroup::kAttention,
                            "A_log is taken for -e^A_log in a state space model")}},
      {.cause = "ssm",
       .text = plainly("takes -e^A_log, which a file may have, for A_log in the decay"),
       .edit = with_numbers(&SsmCall::a, [](float value) { return -std::exp(value); }),
       .faults = {ssm_fault("ssm-decay-twice", FaultGroup::kAttention,
                            "-e^A_log is taken for A_log in a state space model")}},
      {.cause = "ssm",
       .text =
           plainly("takes -A_log, without the exponential, in the place of -e^A_log in the decay"),
       .edit = with_numbers(&SsmCall::a, [](float value) { return -std::log(-value); })},
      {.cause = "ssm",
       .text = plainly("takes e^A_log, which a file may have, for A_log in the decay"),
       .edit = with_numbers(&SsmCall::a, [](float value) { return -std::exp(-value); })},
      {.cause = "ssm",
       .text = plainly("lets the state grow: its decay has the wrong sign"),
       .edit = with_numbers(&SsmCall::a, [](float value) { return -value; }),
       .faults = {ssm_fault("ssm-decay-sign", FaultGroup::kAttention,
                            "the decay of a state space model has the wrong sign")}},
      {.cause = "ssm",
       .text = plainly("does not multiply what it adds to the state by the step"),
       .edit = {.ssm = run_without_step_of_input},
       .faults = {ssm_fault("ssm-input-without-step", FaultGroup::kAttention,
                            "what a state space model adds to its state is not multiplied by the "
                            "step")}},
      {.cause = "ssm",
       .text = plainly("swaps B and C, what is written to the state and what it is read by"),
       .edit = {.ssm = run_with_b_and_c_swapped},
       .faults = {ssm_fault("ssm-b-c-swapped", FaultGroup::kAttention,
                            "B and C of a state space model are swapped")}},
      {.cause = "ssm",
       .text = plainly("takes the first column of A for all, as if a channel had one decay"),
       .edit = {.ssm = run_with_first_decays},
       .possible = [](const Network& network,
                      Op) { return has_decays_of_keys(network.model->config()); }},
      {.cause = "gqa_map",
       .text = plainly("gives the heads each group of B and C in turn, in place of one after the "
                       "other"),
       .edit = with_settings([](SsmCall& call) { call.shape.grouped = false; }),
       .possible = [](const Network& network,
                      Op) { return has_several_groups(network.model->config()); },
       .faults = {{"ssm-heads-in-turn", FaultGroup::kAttention,
                   "heads of a state space model read the groups of B and C in turn",
                   Checkpoint::kSsm,
                   needs("several groups of B and C",
                         [](const ModelConfig& config) {
                           return config.find(Checkpoint::kSsm) != nullptr &&
                                  has_several_groups(config);
                         })}}},
      {.cause = "kv_shift",
       .text = plainly("takes each token for the first: its state is lost"),
       .edit = losing_state([](int64_t, const OpContext&) { return true; }),
       .faults = {ssm_fault("ssm-without-state", FaultGroup::kCache,
                            "a state space model has no state")}},
      {.cause = "kv_shift",
       .text = plainly("loses the state after the prompt"),
       .edit = losing_state([](int64_t position, const OpContext& context) {
         return position == context.n_together;
       }),
       .possible = [](const Network& network, Op) { return network.n_prompt > 0; },
       .faults = {ssm_fault("ssm-state-lost", FaultGroup::kCache,
                            "the state of a state space model is lost after the prompt")}},
      {.cause = "kv_shift",
       .text = plainly("begins with the state that the same tokens left, which is not reset"),
       .edit = {.ssm = run_with_old_state},
       .faults = {ssm_fault("ssm-state-not-reset", FaultGroup::kCache,
                            "a state space model begins with the state of an earlier run of the "
                            "same tokens")}}};
  for (Mistake& mistake : norm_of_ssm_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
