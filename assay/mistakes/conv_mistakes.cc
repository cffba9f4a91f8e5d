#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

// With other weights, of which `edit` is given each channel's [taps].
KernelHooks weighted(std::function<void(std::span<float> weights)> edit) {
  return {.conv = [edit = std::move(edit)](const OpContext&, ConvCall call, Kernels& kernels) {
    std::vector<float> weight(call.weight, call.weight + call.width * call.taps);
    for (int64_t i = 0; i < call.width; ++i) {
      edit({weight.data() + i * call.taps, static_cast<size_t>(call.taps)});
    }
    call.weight = weight.data();
    kernels.run(call);
  }};
}

bool has_prompt(const Network& network, Op) {
  return network.n_prompt > 0;
}

// The weight of the token itself alone.
void leave_last(std::span<float> weights) {
  std::ranges::fill(weights.first(weights.size() - 1), 0.0F);
}

// The call of its token `t` alone.
ConvCall row_of(const ConvCall& call, int64_t t) {
  ConvCall row = call;
  row.n_tokens = 1;
  row.first_position += t;
  row.out += t * call.width;
  if (row.x != nullptr) row.x += t * call.width;
  return row;
}

// Which position a token's convolution begins at, as if there were none before it.
using Origin = std::function<int64_t(int64_t position, const OpContext& context)>;

KernelHooks begun_at(Origin origin) {
  return {.conv = [origin = std::move(origin)](const OpContext& context, const ConvCall& call,
                                               Kernels& kernels) {
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      ConvCall row = row_of(call, t);
      const int64_t position = row.first_position;
      const int64_t first = std::clamp(origin(position, context), int64_t{0}, position);
      row.kv.k = static_cast<const float*>(call.kv.k) + first * call.width;
      if (call.kv.v != nullptr) {
        row.kv.v = static_cast<const float*>(call.kv.v) + first * call.width;
      }
      row.first_position = position - first;
      kernels.run(row);
    }
  }};
}

// The weight of the token itself, and those of the tokens before it, which come one late.
void run_with_late_state(const OpContext& context, const ConvCall& call, Kernels& kernels) {
  std::vector<float> own(static_cast<size_t>(call.n_tokens * call.width));
  ConvCall of_own = call;
  of_own.out = own.data();
  weighted(leave_last).conv(context, of_own, kernels);
  ConvCall late = call;
  late.bias = nullptr;
  --late.first_position;
  weighted([](std::span<float> weights) { weights.back() = 0.0F; }).conv(context, late, kernels);
  for (size_t i = 0; i < own.size(); ++i) call.out[i] += own[i];
}

// The same of what follows the prompt alone.
void run_with_late_state_after_prompt(const OpContext& context, const ConvCall& call,
                                      Kernels& kernels) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const ConvCall row = row_of(call, t);
    if (row.first_position < context.n_together) {
      kernels.run(row);
    } else {
      run_with_late_state(context, row, kernels);
    }
  }
}

void run_with_silu(const OpContext&, const ConvCall& call, Kernels& kernels) {
  const std::vector<float> ones(static_cast<size_t>(call.n_tokens * call.width), 1.0F);
  ConvCall sum = call;
  sum.x = ones.data();
  kernels.run(sum);
  for (size_t i = 0; i < ones.size(); ++i) {
    const float value = call.out[i];
    call.out[i] = call.x[i] * value / (1.0F + std::exp(-value));
  }
}

Injected fault(std::string name, FaultGroup group, std::string what) {
  return {std::move(name), group, std::move(what), Checkpoint::kConv, needs_conv};
}

// The same of a convolution in linear attention, or Mamba-2.
Injected linear_fault(std::string name, std::string what) {
  return {std::move(name), FaultGroup::kCache, std::move(what), Checkpoint::kLinearConv,
          needs_linear_conv};
}

Injected chunked() {
  Injected lost = fault("conv-state-lost-in-chunks", FaultGroup::kCache,
                        "what a convolution holds is lost every 8 positions");
  lost.parameter = with(8);
  return lost;
}

}  // namespace

std::vector<Mistake> conv_mistakes() {
  return {
      {.cause = "activation_kind",
       .text = plainly("passes the result of the convolution through SiLU"),
       .edit = {.conv = run_with_silu},
       .possible = [](const Network& network, Op op) { return !network.has_own_activation(op); },
       .faults = {fault("conv-silu", FaultGroup::kAttention,
                        "the result of a convolution goes through SiLU")}},
      {.cause = "bias_missing",
       .text = plainly("leaves the bias out"),
       .edit = {.conv =
                    [](const OpContext&, ConvCall call, Kernels& kernels) {
                      call.bias = nullptr;
                      kernels.run(call);
                    }},
       .possible = [](const Network& network, Op op) { return network.has_bias(op); },
       .faults = {{"conv-bias-missing", FaultGroup::kAttention,
                   "the bias of Mamba-2's convolution is left out", Checkpoint::kLinearConv,
                   needs("convolution with a bias",
                         [](const ModelConfig& config) {
                           const OpSpec* conv = config.find(Checkpoint::kLinearConv);
                           return conv != nullptr && conv->bias != Presence::kNever;
                         })}}},
      {.cause = "transpose",
       .text = plainly("gives the first of the convolution's weights to the token itself, and the "
                       "last to the earliest"),
       .edit = weighted([](std::span<float> weights) { std::ranges::reverse(weights); }),
       .faults = {fault("conv-reversed", FaultGroup::kAttention,
                        "the weights of a convolution are in reverse order"),
                  linear_fault("linear-conv-reversed",
                               "the weights of linear attention's convolution are reversed")}},
      {.cause = "kv_shift",
       .text = plainly("convolves the tokens up to the one before"),
       .edit = {.conv =
                    [](const OpContext&, ConvCall call, Kernels& kernels) {
                      --call.first_position;
                      kernels.run(call);
                    }},
       // Without a gate it is what the convolution gives, a token late.
       .possible = [](const Network& network, Op op) { return !network.has_own_activation(op); },
       .faults = {fault("conv-late", FaultGroup::kCache,
                        "a convolution reads its positions one slot late")}},
      {.cause = "kv_shift",
       .text = plainly("convolves each token alone, without those before it"),
       .edit = weighted(leave_last),
       .faults = {fault("conv-without-state", FaultGroup::kCache,
                        "a convolution reads no earlier position"),
                  linear_fault("linear-conv-without-state",
                               "linear attention's convolution reads no earlier position")}},
      {.cause = "kv_shift",
       .text = plainly("convolves each token of the decode path alone: its state is lost between "
                       "calls"),
       .edit = begun_at([](int64_t position, const OpContext& context) {
         return std::max(context.site.first_position, position < context.n_together ? 0 : position);
       }),
       .possible = has_prompt,
       .faults = {fault("conv-state-lost", FaultGroup::kCache,
                        "what a convolution holds of earlier positions is lost between calls"),
                  linear_fault("linear-conv-state-lost",
                               "what linear attention's convolution holds is lost between calls")}},
      {.cause = "kv_shift",
       .text = plainly("convolves what follows the prompt without the prompt: its state is lost "
                       "there"),
       .edit = begun_at([](int64_t position, const OpContext& context) {
         return position < context.n_together ? 0 : context.n_together;
       }),
       .possible = has_prompt},
      {.cause = "kv_shift",
       .text =
           [](const Network&, double count) {
             return fmt::format("loses its state every {:.0f} positions", count);
           },
       .edit = begun_at([](int64_t position, const OpContext& context) {
         const auto count = static_cast<int64_t>(context.parameter);
         return position / count * count;
       }),
       .grid = among({2, 4, 8, 16, 32, 64, 128, 256, 512}),
       .faults = {chunked()}},
      {.cause = "kv_shift",
       .text = plainly("convolves each token with those before it one late, and itself in time"),
       .edit = {.conv = run_with_late_state},
       .faults = {fault("conv-state-late", FaultGroup::kCache,
                        "a convolution reads earlier positions one slot late"),
                  linear_fault("linear-conv-state-late",
                               "linear attention's convolution reads earlier positions one slot "
                               "late")}},
      {.cause = "kv_shift",
       .text = plainly("convolves each token after the prompt with those before it one late, and "
                       "itself in time"),
       .edit = {.conv = run_with_late_state_after_prompt},
       .possible = has_prompt,
       .faults = {fault("conv-state-late-after-prompt", FaultGroup::kCache,
                        "a convolution reads earlier positions one slot late after the prompt")}}};
}

}  // namespace assay::mistakes
