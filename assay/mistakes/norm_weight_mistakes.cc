#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/mistakes/mistake.h"

// Of norms with the weights of others, of those of values, which have none (Gemma 4), and of
// weights that are multiplied with before a rotation in place of behind it (Hunyuan).
namespace assay::mistakes {
namespace {

// Norms of a layer of which models have several, all of one width.
constexpr Checkpoint kNormsOfStream[] = {Checkpoint::kAttnNorm,   Checkpoint::kPostAttnNorm,
                                         Checkpoint::kFfnNorm,    Checkpoint::kExpertNorm,
                                         Checkpoint::kRouterNorm, Checkpoint::kRoutedNorm,
                                         Checkpoint::kSharedNorm, Checkpoint::kPostFfnNorm};

bool has_other_norm(const Network& network, Op op) {
  if (network.model == nullptr || op.layer < 0) return false;
  const auto has = [&](Checkpoint each) {
    return each != op.checkpoint && find_spec(network.layer(op.layer), each) != nullptr;
  };
  return std::ranges::find(kNormsOfStream, op.checkpoint) != std::end(kNormsOfStream) &&
         std::ranges::any_of(kNormsOfStream, has);
}

// The weights of the norm that the parameter is, where the layer has it.
void run_with_weights_of(const OpContext& context, NormCall call, Kernels& kernels) {
  const auto of = static_cast<Checkpoint>(context.parameter);
  if (find_spec(context.network.layer(context.site.layer), of) != nullptr) {
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
  return {
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
}

}  // namespace assay::mistakes
