#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"
#include "kernels/reference/reference.h"

// What is done to the scores of an attention: their scale, their cap, their sinks.
namespace assay::mistakes {

KernelHooks called(std::function<void(AttentionCall&, double parameter)> edit) {
  return {.attention = [edit = std::move(edit)](const OpContext& context, AttentionCall call,
                                                Kernels& kernels) {
    edit(call, context.parameter);
    kernels.run(call);
  }};
}

namespace {

std::string scale_text(const Network& network, double value) {
  const auto dim = static_cast<double>(network.head_dim);
  const auto right = static_cast<double>(network.attention_shape({Checkpoint::kAttn, 0}).scale);
  const auto is = [&](double named) {
    return std::abs(value / named - 1) < 1e-4 && std::abs(right / named - 1) >= 1e-4;
  };
  std::string what = number_unlike(value, right);
  if (is(1)) what = "1 (none)";
  if (is(1 / std::sqrt(dim))) what = "1/sqrt(head_dim)";
  if (is(1 / dim)) what = "1/head_dim";
  if (is(std::sqrt(dim))) what = "sqrt(head_dim)";
  return fmt::format("scales attention scores by {} in place of {}{}", what,
                     std::abs(right * std::sqrt(dim) - 1) < 1e-4 ? "1/sqrt(head_dim) = " : "",
                     number_unlike(right, value));
}

std::vector<double> scale_grid(const Network& network) {
  const auto dim = static_cast<double>(network.head_dim);
  std::vector<double> grid = ratios(1e-3 / dim, 1e2, 48);
  for (const double value : {1 / dim, 1 / std::sqrt(dim), 1.0, std::sqrt(dim)})
    grid.push_back(value);
  std::sort(grid.begin(), grid.end());
  return grid;
}

bool scales_scores(const Model& model) {
  return model.config().attention_shape(0).scale != 1.0F;
}

std::string needs_scale(const Model& model) {
  return scales_scores(model) ? "" : "its scores are not scaled";
}

std::string needs_no_scale(const Model& model) {
  return scales_scores(model) ? "its scores are scaled" : "";
}

double root_of_head(const OpContext& context) {
  return 1.0 / std::sqrt(static_cast<double>(context.network.head_dim));
}

Mistake scale_mistake() {
  return {.cause = "attention_scale",
          .text = scale_text,
          .edit = called([](AttentionCall& call, double scale) {
            call.shape.scale = static_cast<float>(scale);
          }),
          .grid = scale_grid,
          .refine = true,
          .faults = {
              {"scale-missing", FaultGroup::kAttention,
               "scores are not divided by the root of head_dim", Checkpoint::kAttn, needs_scale,
               with(1)},
              {"scale-of-head", FaultGroup::kAttention,
               "scores are divided by the root of head_dim, which they are not to be",
               Checkpoint::kAttn, needs_no_scale, root_of_head},
              {"scale-twice", FaultGroup::kAttention,
               "scores are divided by the root of head_dim twice", Checkpoint::kAttn, needs_scale,
               [](const OpContext& context) {
                 const double scale = context.network.attention_shape(context.op()).scale;
                 return scale * scale;
               }},
              {"scale-of-width", FaultGroup::kAttention,
               "scores are divided by the root of the model's width", Checkpoint::kAttn, any_model,
               [](const OpContext& context) {
                 return 1.0 / std::sqrt(static_cast<double>(
                                  context.network.width({Checkpoint::kEmbedding, -1})));
               }},
              {.name = "scale-without-yarn",
               .group = FaultGroup::kAttention,
               .what = "YaRN's factor of the scores is left out",
               .at = Checkpoint::kAttn,
               .unsupported_reason =
                   needs("factor of the scores",
                         [](const ModelConfig& config) { return config.yarn_score_factor != 1.0; }),
               .parameter = root_of_head,
               .in_arguments = true}}};
}

const float* sinks_of(const Network& network, Op op) {
  return network.model == nullptr
             ? nullptr
             : network.model->layers[static_cast<size_t>(op.layer)].extra.sinks;
}

std::string needs_sinks(const Model& model) {
  return model.layers.front().extra.sinks != nullptr ? "" : "its attention has no sinks";
}

Mistake other_sinks(const char* text, float (*sink)(const AttentionCall& call, int64_t head),
                    std::vector<Injected> faults) {
  return {
      .cause = "attention_sinks",
      .text = plainly(text),
      .edit = {.attention =
                   [sink](const OpContext&, AttentionCall call, Kernels& kernels) {
                     std::vector<float> sinks;
                     for (int64_t head = 0; head < call.shape.n_heads; ++head) {
                       sinks.push_back(sink(call, head));
                     }
                     call.sinks = sinks.data();
                     kernels.run(call);
                   }},
      .possible = [](const Network& network, Op op) { return sinks_of(network, op) != nullptr; },
      .faults = std::move(faults)};
}

// Row `head * queries + query` of the scores of all heads has the sink of that number, modulo the
// heads: right where there is a single query.
void run_with_sinks_by_row(const OpContext& context, const AttentionCall& call, Kernels& kernels) {
  const int64_t heads = call.shape.n_heads;
  std::vector<float> sinks(static_cast<size_t>(heads));
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    AttentionCall row = call.part(t, 1);
    const bool in_prompt = row.first_position < context.n_together;
    const int64_t queries = in_prompt ? context.n_together : 1;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t number = head * queries + (in_prompt ? row.first_position : 0);
      sinks[static_cast<size_t>(head)] = call.sinks[number % heads];
    }
    row.sinks = sinks.data();
    kernels.run(row);
  }
}

// Where layers without rotation alone have a temperature.
Injected of_own_temperature(const char* name, const char* what) {
  return {.name = name,
          .group = FaultGroup::kAttention,
          .what = what,
          .at = Checkpoint::kAttn,
          .unsupported_reason = needs("temperature of layers without rotation",
                                      [](const ModelConfig& config) {
                                        return config.architecture->default_temperature > 0.0 &&
                                               config.attention_temperature > 0.0F;
                                      }),
          .in_arguments = true};
}

}  // namespace

std::vector<Mistake> score_mistakes() {
  const auto has_cap = [](const ModelConfig& config) { return config.attention_soft_cap > 0.0F; };
  const auto has_other_cap = [](const ModelConfig& config) {
    return config.attention_soft_cap > 0.0F && config.logit_soft_cap > 0.0F &&
           config.attention_soft_cap != config.logit_soft_cap;
  };
  return {
      scale_mistake(),
      {.cause = "attention_softcap",
       .text = plainly("does not cap the attention scores"),
       .edit = called([](AttentionCall& call, double) { call.shape.soft_cap = 0.0F; }),
       .possible = [](const Network& network,
                      Op op) { return network.attention_shape(op).soft_cap > 0.0F; },
       .faults = {{.name = "attention-softcap-missing",
                   .group = FaultGroup::kAttention,
                   .what = "the scores are not capped",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs("cap of the attention scores", has_cap),
                   .in_arguments = true}}},
      {.cause = "attention_softcap",
       .text =
           [](const Network& network, double cap) {
             const float right = network.attention_shape({Checkpoint::kAttn, 0}).soft_cap;
             if (!(right > 0.0F)) return fmt::format("caps the attention scores at {:.4g}", cap);
             return fmt::format("caps the attention scores at {} in place of {}",
                                number_unlike(cap, right), number_unlike(right, cap));
           },
       .edit = called(
           [](AttentionCall& call, double cap) { call.shape.soft_cap = static_cast<float>(cap); }),
       .possible = [](const Network& network, Op) { return network.model != nullptr; },
       .grid = among({1, 2, 3, 5, 10, 15, 20, 30, 50, 80, 100}),
       .refine = true,
       .faults = {{.name = "attention-softcap-of-logits",
                   .group = FaultGroup::kAttention,
                   .what = "the scores are capped as the logits are",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs("two soft caps", has_other_cap),
                   .parameter =
                       [](const OpContext& context) {
                         return static_cast<double>(context.network.model->config().logit_soft_cap);
                       },
                   .in_arguments = true}}},
      {.cause = "attention_softcap",
       .text = plainly("does not multiply by the cap what the tanh of the scores gives"),
       .edit = called([](AttentionCall& call, double) {
         call.shape.scale /= std::exchange(call.shape.soft_cap, 1.0F);
       }),
       .possible = [](const Network& network,
                      Op op) { return network.attention_shape(op).soft_cap > 0.0F; }},
      {.cause = "attention_softcap",
       .text = plainly("caps the attention scores after it has masked them: later positions have "
                       "the score -cap"),
       .edit = varied([](reference::AttentionVariant& variant, const OpContext& context) {
         const float cap = context.network.attention_shape(context.op()).soft_cap;
         variant.unseen_score = -static_cast<double>(cap);
         variant.sees = [prompt = context.n_together](int64_t query, int64_t key) {
           return key <= query || (query < prompt && key < prompt);
         };
       }),
       .possible = [](const Network& network,
                      Op op) { return network.attention_shape(op).soft_cap > 0.0F; },
       .reads_ahead = true},
      {.cause = "attention_softcap",
       .text = plainly("caps the attention scores before they are scaled"),
       .edit = called([](AttentionCall& call, double) { call.shape.soft_cap *= call.shape.scale; }),
       .possible = [](const Network& network,
                      Op op) { return network.attention_shape(op).soft_cap > 0.0F; },
       .faults = {{.name = "attention-softcap-before-scale",
                   .group = FaultGroup::kAttention,
                   .what = "the scores are capped before they are scaled",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs("cap of the attention scores", has_cap),
                   .in_arguments = true}}},
      {.cause = "attention_scale",
       .text = plainly("divides attention scores by the number of the layer, too"),
       .edit = {.attention =
                    [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                      call.shape.scale /= static_cast<float>(context.site.layer + 1);
                      kernels.run(call);
                    }},
       .possible = [](const Network&, Op op) { return op.layer > 0; },
       .of_all_layers = true,
       .faults = {{.name = "scale-of-layer",
                   .group = FaultGroup::kAttention,
                   .what = "scores are divided by the number of the layer, too",
                   .at = Checkpoint::kAttn,
                   .in_every_layer = true,
                   .in_arguments = true}}},
      {.cause = "attention_scale",
       .text = plainly("scales the attention scores of late queries as those of early ones"),
       .edit = called([](AttentionCall& call, double) { call.shape.temperature = 0.0F; }),
       .possible = [](const Network& network,
                      Op op) { return network.attention_shape(op).temperature > 0.0F; },
       .faults = {{.name = "scale-without-temperature",
                   .group = FaultGroup::kAttention,
                   .what = "scores are not scaled by the query's position",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs("temperature of the scores",
                                               [](const ModelConfig& config) {
                                                 return config.attention_temperature > 0.0F;
                                               }),
                   .in_arguments = true}}},
      {.cause = "attention_scale",
       .text = plainly("counts positions from 0 where it scales the scores of late queries"),
       .edit = called([](AttentionCall& call, double) { call.shape.temperature_offset = 0; }),
       .possible =
           [](const Network& network, Op op) {
             const AttentionShape shape = network.attention_shape(op);
             return shape.temperature > 0.0F && shape.temperature_offset > 0;
           },
       .faults = {of_own_temperature(
           "temperature-from-zero",
           "positions are counted from 0 where scores are scaled by the query's position")}},
      {.cause = "attention_scale",
       .text =
           plainly("scales the attention scores of late queries, as in layers without rotation"),
       .edit = {.attention =
                    [](const OpContext& context, AttentionCall call, Kernels& kernels) {
                      const ModelConfig& config = context.network.model->config();
                      call.shape.temperature = config.attention_temperature;
                      kernels.run(call);
                    }},
       .possible =
           [](const Network& network, Op op) {
             return network.model != nullptr &&
                    network.model->config().attention_temperature > 0.0F &&
                    network.attention_shape(op).temperature == 0.0F;
           },
       .faults = {of_own_temperature(
           "temperature-of-rotated",
           "scores of rotated layers are scaled by the query's position")}},
      other_sinks("multiplies the attention sinks by the scale of the scores",
                  [](const AttentionCall& call, int64_t head) {
                    return call.sinks[head] * call.shape.scale;
                  },
                  {{.name = "sinks-scaled",
                    .group = FaultGroup::kAttention,
                    .what = "the attention's sinks are scaled as the scores are",
                    .at = Checkpoint::kAttn,
                    .unsupported_reason = needs_sinks,
                    .in_arguments = true}}),
      other_sinks("gives query head h the attention sink h mod n_kv_heads",
                  [](const AttentionCall& call, int64_t head) {
                    return call.sinks[head % call.shape.n_kv_heads];
                  },
                  {}),
      {.cause = "attention_sinks",
       .text = plainly("gives each query of a prompt the attention sink of the head of its row's "
                       "number, modulo the heads"),
       .edit = {.attention = run_with_sinks_by_row},
       .possible = [](const Network& network,
                      Op op) { return network.n_prompt > 0 && sinks_of(network, op) != nullptr; },
       .faults = {{.name = "sinks-by-row",
                   .group = FaultGroup::kAttention,
                   .what = "a query of a prompt has the sink of its row's number, not its head's",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs_sinks,
                   .in_arguments = true}}},
      {.cause = "attention_sinks",
       .text = plainly("leaves the attention sinks out"),
       .edit = called([](AttentionCall& call, double) { call.sinks = nullptr; }),
       .possible = [](const Network& network, Op op) { return sinks_of(network, op) != nullptr; },
       .faults = {{.name = "sinks-missing",
                   .group = FaultGroup::kAttention,
                   .what = "the attention's sinks are left out",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs_sinks,
                   .in_arguments = true}}},
      {.cause = "attention_sinks",
       .text = plainly("takes 0 for each attention sink"),
       .edit = {.attention =
                    [](const OpContext&, AttentionCall call, Kernels& kernels) {
                      const std::vector<float> zeros(static_cast<size_t>(call.shape.n_heads));
                      call.sinks = zeros.data();
                      kernels.run(call);
                    }},
       .possible = [](const Network& network, Op op) { return sinks_of(network, op) != nullptr; },
       .faults = {{.name = "sinks-zero",
                   .group = FaultGroup::kAttention,
                   .what = "each of the attention's sinks is taken for 0",
                   .at = Checkpoint::kAttn,
                   .unsupported_reason = needs_sinks,
                   .in_arguments = true}}}};
}

}  // namespace assay::mistakes
