#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"

namespace assay::mistakes {
namespace {

constexpr Checkpoint kAttn = Checkpoint::kAttnResidual;
constexpr Checkpoint kFfn = Checkpoint::kOutput;

// The sum with one of its inputs multiplied.
KernelHooks multiplied_input(const float* AddCall::*input) {
  return {.add = [input](const OpContext& context, AddCall call, Kernels& kernels) {
    std::vector<float> values(call.*input, call.*input + call.count);
    for (float& value : values) value *= static_cast<float>(context.parameter);
    call.*input = values.data();
    kernels.run(call);
  }};
}

// The sum of what is logged of another op and of the block's output.
Mistake added_to(Op (*other)(Op), bool (*is_possible)(const Network&, Op), const char* text) {
  return {.cause = "residual",
          .text = plainly(text),
          .edit = {.add =
                       [other](const OpContext& context, AddCall call, Kernels& kernels) {
                         const auto rows = context.inputs.other(other(context.op()));
                         const bool fits = rows && std::ssize(rows->values) == call.count;
                         if (fits) call.a = rows->values.data();
                         kernels.run(call);
                       }},
          .possible = is_possible};
}

// What is normalised of the stream that a block's output is added to.
Op norm_of_stream(Op op) {
  return {op.checkpoint == kAttn ? Checkpoint::kAttnNorm : Checkpoint::kFfnNorm, op.layer};
}

Op attention_output(Op op) {
  return {Checkpoint::kAttnOut, op.layer};
}

bool is_of_stream(const Network&, Op op) {
  return op.checkpoint == kAttn || op.checkpoint == kFfn ||
         op.checkpoint == Checkpoint::kFfnResidual;
}

bool is_after_ffn(const Network&, Op op) {
  return op.checkpoint == kFfn;
}

std::string branch_text(const Network&, double by) {
  return by == 0 ? std::string("does not add the block's output to the residual stream")
                 : fmt::format("adds {} times the block's output to the residual stream",
                               number_unlike(by, 1));
}

std::string residual_text(const Network&, double by) {
  return by == 0 ? std::string("leaves the residual stream out")
                 : fmt::format("adds {} times the residual stream", number_unlike(by, 1));
}

Injected residual_fault(const char* name, const char* what, Checkpoint at, double factor) {
  return {name, FaultGroup::kResidual, what, at, any_model, with(factor)};
}

// What is added with another multiplier than its own.
Mistake multiplied_otherwise(std::string text, std::function<float(float)> edit) {
  return {.cause = "residual_multiplier",
          .text = plainly(std::move(text)),
          .edit = {.add =
                       [edit = std::move(edit)](const OpContext&, AddCall call, Kernels& kernels) {
                         call.scale = edit(call.scale);
                         kernels.run(call);
                       }},
          .possible = [](const Network& network, Op op) {
            return is_of_stream(network, op) && network.model != nullptr &&
                   network.model->config().residual_factor() != 1.0F;
          }};
}

std::string needs_layer_scale(const Model& model) {
  return std::ranges::any_of(model.layers,
                             [](const Layer& layer) { return layer.extra.scale != 1.0F; })
             ? ""
             : "its layers have no scale";
}

// Of a layer whose result is multiplied by a number of its own.
Mistake other_layer_scale(std::string text, std::function<float(float)> edit,
                          std::vector<Injected> faults = {}) {
  return {.cause = "layer_scale",
          .text = plainly(std::move(text)),
          .edit = {.scale =
                       [edit = std::move(edit)](const OpContext&, AddCall call, Kernels& kernels) {
                         call.scale = edit(call.scale);
                         kernels.run(call);
                       }},
          .possible = [](const Network& network,
                         Op op) { return is_after_ffn(network, op) && network.scale_at(op) != 1; },
          .faults = std::move(faults)};
}

}  // namespace

std::vector<Mistake> residual_mistakes() {
  const auto factors = among({-2, -1, -0.5, 0, 0.25, 0.5, 2, 4});
  Mistake without_multiplier =
      multiplied_otherwise("leaves the residual multiplier out", [](float) { return 1.0F; });
  without_multiplier.faults = {
      {.name = "residual-multiplier-missing",
       .group = FaultGroup::kResidual,
       .what = "what is added to the residual stream is not multiplied",
       .at = kAttn,
       .unsupported_reason =
           needs("residual multiplier",
                 [](const ModelConfig& config) { return config.residual_factor() != 1.0F; }),
       .also = {kFfn},
       .in_every_layer = true,
       .in_arguments = true}};
  return {std::move(without_multiplier),
          multiplied_otherwise("divides by the residual multiplier",
                               [](float multiplier) { return 1.0F / multiplier; }),
          multiplied_otherwise("applies the residual multiplier twice",
                               [](float multiplier) { return multiplier * multiplier; }),
          other_layer_scale("leaves the scale of the layer out", [](float) { return 1.0F; },
                            {{.name = "layer-scale-missing",
                              .group = FaultGroup::kResidual,
                              .what = "the result of a layer is not scaled",
                              .at = kFfn,
                              .unsupported_reason = needs_layer_scale,
                              .in_arguments = true}}),
          other_layer_scale("applies the scale of the layer twice",
                            [](float scale) { return scale * scale; }),
          {.cause = "residual",
           .text = branch_text,
           .text_of_layer =
               [](double by) {
                 return by == 0 ? "is left out: it gives what enters it" : std::string();
               },
           .edit = multiplied_input(&AddCall::b),
           .possible = is_of_stream,
           .grid = factors,
           .refine = true,
           .faults = {residual_fault("branch-attn-dropped", "the attention's output is not added",
                                     kAttn, 0),
                      residual_fault("branch-ffn-doubled",
                                     "the feed-forward's output is added twice", kFfn, 2)}},
          {.cause = "residual",
           .text = residual_text,
           .edit = multiplied_input(&AddCall::a),
           .possible = is_of_stream,
           .grid = factors,
           .refine = true,
           .faults = {residual_fault("residual-attn-dropped",
                                     "x is not added to the attention's output", kAttn, 0),
                      residual_fault("residual-attn-doubled",
                                     "x is added to the attention's output twice", kAttn, 2),
                      residual_fault("residual-ffn-dropped",
                                     "x is not added to the feed-forward's output", kFfn, 0),
                      residual_fault("residual-ffn-doubled",
                                     "x is added to the feed-forward's output twice", kFfn, 2)}},
          added_to(norm_of_stream, is_of_stream, "adds to the normalised stream"),
          added_to(attention_output, is_after_ffn, "adds to the attention's output alone"),
          added_to(layer_input, is_after_ffn,
                   "adds to the layer's input in place of the attention's residual")};
}

}  // namespace assay::mistakes
