#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/norm_edits.h"

// Of norms with the weights of others, of those of values, which have none (Gemma 4), and of
// weights that are multiplied with before a rotation in place of behind it (Hunyuan); of norms
// before the last products of attention and feed-forward (BitNet).
namespace assay::mistakes {
namespace {

// Norms of a layer of which models have several, all of one width.
constexpr Checkpoint kNormsOfStream[] = {Checkpoint::kAttnNorm,   Checkpoint::kPostAttnNorm,
                                         Checkpoint::kFfnNorm,    Checkpoint::kExpertNorm,
                                         Checkpoint::kRouterNorm, Checkpoint::kRoutedNorm,
                                         Checkpoint::kSharedNorm, Checkpoint::kPostFfnNorm};

// And of the parts that Mamba writes to its state and reads it by.
constexpr Checkpoint kNormsOfState[] = {Checkpoint::kSsmBNorm, Checkpoint::kSsmCNorm};

// The norms that may be taken for that of the checkpoint, which is one of them.
std::span<const Checkpoint> alike(Checkpoint checkpoint) {
  if (std::ranges::find(kNormsOfState, checkpoint) != std::end(kNormsOfState)) return kNormsOfState;
  if (std::ranges::find(kNormsOfStream, checkpoint) == std::end(kNormsOfStream)) return {};
  return kNormsOfStream;
}

bool has_other_norm(const Network& network, Op op) {
  if (network.model == nullptr || op.layer < 0) return false;
  return std::ranges::any_of(alike(op.checkpoint), [&](Checkpoint each) {
    const OpSpec* spec = find_spec(network.layer(op.layer), each);
    return each != op.checkpoint && spec != nullptr && !spec->tensor.empty();
  });
}

// The weights of the norm that the parameter is, where the layer has it.
void run_with_weights_of(const OpContext& context, NormCall call, Kernels& kernels) {
  const auto of = static_cast<Checkpoint>(context.parameter);
  const std::span<const Checkpoint> others = alike(context.site.checkpoint);
  if (std::ranges::find(others, of) != others.end() &&
      find_spec(context.network.layer(context.site.layer), of) != nullptr) {
    const NormCall other = context.network.norm_call({of, context.site.layer});
    call.weight = other.weight;
    call.bias = other.bias;
  }
  kernels.run(call);
}

bool is_norm_of_values(const Network& network, Op op) {
  return network.model != nullptr && op.checkpoint == Checkpoint::kVNorm &&
         find_spec(network.layer(op.layer), Checkpoint::kKNorm) != nullptr;
}

bool is_norm_of_keys_as_values(const Network& network, Op op) {
  return is_norm_of_values(network, op) && network.inputs(op).front().checkpoint == Checkpoint::kK;
}

// What the norm of the keys gives.
void take_normed_keys(const OpContext& context, const NormCall& call, Kernels& kernels) {
  const auto rows = context.inputs.other
                        ? context.inputs.other({Checkpoint::kKNorm, context.site.layer})
                        : nullptr;
  if (!rows || std::ssize(rows->values) != call.n_tokens * call.width) return kernels.run(call);
  std::ranges::copy(rows->values, call.out);
}

bool is_weighted_norm_of_rotated(const Network& network, Op op) {
  return network.model != nullptr && network.rope && network.has_norm_weight(op) &&
         (op.checkpoint == Checkpoint::kQRopeNorm || op.checkpoint == Checkpoint::kKRopeNorm);
}

// What a norm before the rotation leads to behind it: what has been rotated is turned back first.
void normalise_before_rotation(const OpContext& context, NormCall call, Kernels& kernels) {
  const RopeSettings& rotation = context.network.rope_at(context.op());
  const std::vector<double> positions(context.inputs.positions.begin(),
                                      context.inputs.positions.end());
  std::vector<double> backwards = positions;
  for (double& position : backwards) position = -position;
  RopeSettings back = rotation;
  back.factor = 1.0 / rotation.factor;

  const int64_t rows = std::ssize(positions);
  Matrix x(rows, call.n_tokens * call.width / rows);
  std::copy_n(call.x, x.values.size(), x.values.begin());
  x = rope(x, back, backwards);
  Matrix normed(x.rows, x.columns);
  float* out = call.out;
  call.x = x.values.data();
  call.out = normed.values.data();
  kernels.run(call);
  std::ranges::copy(rope(normed, rotation, positions).values, out);
}

Injected before_rotation() {
  return {.name = "qk-norm-before-rotation",
          .group = FaultGroup::kNorm,
          .what = "q and k are normalised before they are rotated",
          .at = Checkpoint::kQRopeNorm,
          .unsupported_reason = needs("weighted norm of rotated q and k",
                                      [](const ModelConfig& config) {
                                        const OpSpec* norm = config.find(Checkpoint::kQRopeNorm);
                                        return norm != nullptr && !norm->tensor.empty();
                                      }),
          .also = {Checkpoint::kKRopeNorm},
          .in_arguments = true};
}

// A norm that has the weights of `other`, in networks with both.
Injected with_weights(const char* name, const char* what, Checkpoint at, Checkpoint other) {
  return {.name = name,
          .group = FaultGroup::kNorm,
          .what = what,
          .at = at,
          .unsupported_reason = needs("norms of what experts and router read",
                                      [=](const ModelConfig& config) {
                                        return config.find(at) != nullptr &&
                                               config.find(other) != nullptr;
                                      }),
          .parameter = with(static_cast<double>(other)),
          .in_arguments = true};
}

// Of a feed-forward with a norm in front of its last product (BitNet): the activated gate is
// normalised, and what it is multiplied by is not.
void normalise_before_up(const OpContext& context, ActivateCall call, Kernels& kernels) {
  const std::vector<float> up(call.up, call.up + call.count);  // out may stand in its place
  call.up = nullptr;
  activate(call, *context.network.activation, kernels);
  NormCall norm = context.network.norm_call({Checkpoint::kFfnSubNorm, context.site.layer});
  norm.x = norm.out = call.out;
  norm.n_tokens = call.count / norm.width;
  kernels.run(norm);
  for (int64_t i = 0; i < call.count; ++i) call.out[i] *= up[static_cast<size_t>(i)];
}

bool is_of_sub_norm(const Network& network, Op op) {
  return network.model != nullptr && network.gated() &&
         (op.checkpoint == Checkpoint::kFfnSubNorm ||
          (op.checkpoint == Checkpoint::kFfnAct &&
           find_spec(network.layer(op.layer), Checkpoint::kFfnSubNorm) != nullptr));
}

// In place of what attention gives, what its last product does.
bool is_of_attention_sub_norm(const Network& network, Op op) {
  if (network.model == nullptr) return false;
  const Linear* out = network.linear({Checkpoint::kAttnOut, op.layer});
  const bool is_it = op.checkpoint == Checkpoint::kAttnSubNorm ||
                     (op.checkpoint == Checkpoint::kAttnOut &&
                      find_spec(network.layer(op.layer), Checkpoint::kAttnSubNorm) != nullptr);
  return is_it && out != nullptr && out->weight.rows == out->weight.columns;
}

void normalise_product(const OpContext& context, const MatmulCall& call, Kernels& kernels) {
  kernels.run(call);
  NormCall norm = context.network.norm_call({Checkpoint::kAttnSubNorm, context.site.layer});
  norm.x = norm.out = call.out;
  norm.n_tokens = call.n_tokens;
  kernels.run(norm);
}

// A norm of what attention gives, with the weights that it has, over each head.
void run_over_heads(const OpContext& context, NormCall call, Kernels& kernels) {
  const int64_t n_heads = context.network.n_heads;
  if (call.n_weights != 1 || call.width % n_heads != 0) return kernels.run(call);
  call.n_tokens *= n_heads;
  call.n_weights = n_heads;
  call.width /= n_heads;
  call.x_width = 0;
  kernels.run(call);
}

// A norm of BitNet's in another place, and over each head.
std::vector<Mistake> sub_norm_mistakes() {
  const char* const before_up = "is normalised before it is multiplied by up, not after";
  return {{.cause = "norm_order",
           .text = plainly(before_up),
           .edit = {.activate = normalise_before_up},
           .possible = is_of_sub_norm},
          // As a log shows it that has what the norm reads.
          {.cause = "norm_order",
           .text = plainly("is not multiplied by up, before a norm that is to follow it"),
           .edit = {.activate =
                        [](const OpContext& context, ActivateCall call, Kernels& kernels) {
                          call.up = nullptr;
                          activate(call, *context.network.activation, kernels);
                        }},
           .possible = is_of_sub_norm},
          {.cause = "norm_order",
           .text = plainly(before_up),
           .edit = {.norm = run_without_norm, .activate = normalise_before_up},
           .possible = is_of_sub_norm,
           .together = true},
          {.cause = "norm_order",
           .text = plainly("is normalised after attention's last product, not before it"),
           .edit = {.matmul = normalise_product, .norm = run_without_norm},
           .possible = is_of_attention_sub_norm,
           .together = true},
          {.cause = "norm_kind",
           .text = plainly("normalises each head by itself, not all together"),
           .edit = {.norm = run_over_heads},
           .possible = [](const Network& network, Op op) {
             return network.model != nullptr && op.checkpoint == Checkpoint::kAttnSubNorm &&
                    network.n_heads > 1;
           }}};
}

Injected of_values(std::string name, std::string what) {
  return {.name = std::move(name),
          .group = FaultGroup::kNorm,
          .what = std::move(what),
          .at = Checkpoint::kVNorm,
          .unsupported_reason = needs(
              "norm of values",
              [](const ModelConfig& config) { return config.find(Checkpoint::kVNorm) != nullptr; }),
          .in_arguments = true};
}

}  // namespace

std::vector<Mistake> norm_weight_mistakes() {
  std::vector<Mistake> mistakes = {
      {.cause = "norm_order",
       .text =
           [](const Network&, double other) {
             return fmt::format("has the weights of {}",
                                checkpoint_op(static_cast<Checkpoint>(other)));
           },
       .edit = {.norm = run_with_weights_of},
       .possible = has_other_norm,
       .grid =
           [](const Network&) {
             std::vector<double> all;
             for (const Checkpoint each : kNormsOfStream) all.push_back(static_cast<double>(each));
             for (const Checkpoint each : kNormsOfState) all.push_back(static_cast<double>(each));
             std::ranges::sort(all);
             return all;
           },
       .faults = {{.name = "norm-weights-of-attention",
                   .group = FaultGroup::kNorm,
                   .what = "the feed-forward's norm has the weights of the attention's",
                   .at = Checkpoint::kFfnNorm,
                   .unsupported_reason =
                       [](const Model& model) {
                         return model.config().find(Checkpoint::kAttnNorm) == nullptr
                                    ? "its attention has no norm"
                                    : "";
                       },
                   .parameter = with(static_cast<double>(Checkpoint::kAttnNorm)),
                   .in_arguments = true},
                  with_weights("expert-norm-of-dense",
                               "the experts read what the feed-forward beside them does",
                               Checkpoint::kExpertNorm, Checkpoint::kFfnNorm),
                  with_weights("router-norm-of-experts", "the router reads what the experts do",
                               Checkpoint::kRouterNorm, Checkpoint::kExpertNorm)}},
      {.cause = "norm_kind",
       .text = plainly("leaves the norm of the values out"),
       .edit = {.norm =
                    [](const OpContext&, const NormCall& call, Kernels&) {
                      std::copy_n(call.x, call.n_tokens * call.width, call.out);
                    }},
       .possible = is_norm_of_values,
       .faults = {of_values("v-norm-missing", "the values are not normalised")}},
      {.cause = "norm_order",
       .text = plainly("has the weights of k_norm: values are normalised as keys"),
       .edit = {.norm =
                    [](const OpContext& context, NormCall call, Kernels& kernels) {
                      const Op keys{Checkpoint::kKNorm, context.site.layer};
                      call.weight = context.network.norm_call(keys).weight;
                      kernels.run(call);
                    }},
       .possible = is_norm_of_values,
       .faults = {of_values("v-norm-of-keys", "the norm of v has the weights of that of k")}},
      {.cause = "norm_order",
       .text = plainly("is k_norm: values are the keys after their norm, not before it"),
       .edit = {.norm = take_normed_keys},
       .possible = is_norm_of_keys_as_values},
      {.cause = "norm_order",
       .text = plainly("is taken before the rotation, not behind it"),
       .edit = {.norm = normalise_before_rotation},
       .possible = is_weighted_norm_of_rotated,
       .faults = {before_rotation()}},
  };
  for (Mistake& mistake : sub_norm_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
