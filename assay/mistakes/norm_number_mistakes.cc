#include <algorithm>
#include <optional>
#include <string>

#include "assay/mistakes/mistake.h"

// Norms in the numbers of another type, and with the numbers of another norm.
namespace assay::mistakes {
namespace {

// Which numbers of a norm are rounded; its sums are not.
struct Rounded {
  bool input = false;
  bool before_weight = false;  // what is normalised
  bool weight = false;
  bool result = false;
};

void run_rounded(const Rounding& rounding, const Rounded& rounded, NormCall call,
                 Kernels& kernels) {
  const int64_t n_weights = call.n_weights * call.width;
  std::vector<float> weight(call.weight, call.weight + n_weights);
  std::vector<float> bias;
  if (call.bias != nullptr) bias.assign(call.bias, call.bias + call.width);
  if (rounded.weight) {
    std::ranges::transform(weight, weight.begin(), rounding.round);
    std::ranges::transform(bias, bias.begin(), rounding.round);
  }
  std::vector<float> x(static_cast<size_t>(call.n_tokens * call.width));
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    std::copy_n(call.x + t * call.x_stride(), call.width, x.data() + t * call.width);
  }
  if (rounded.input) std::ranges::transform(x, x.begin(), rounding.round);
  const std::vector<float> ones(static_cast<size_t>(n_weights), 1.0F);
  call.x = x.data();
  call.x_width = 0;
  call.weight = ones.data();
  call.bias = nullptr;
  kernels.run(call);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    for (int64_t i = 0; i < call.width; ++i) {
      float& out = call.out[t * call.width + i];
      if (rounded.before_weight) out = rounding.round(out);
      out *= weight[static_cast<size_t>(t % call.n_weights * call.width + i)];
      if (!bias.empty()) out += bias[static_cast<size_t>(i)];
      if (rounded.result) out = rounding.round(out);
    }
  }
}

Mistake rounded_norm(const Rounding& rounding, std::string text, Rounded rounded) {
  return {
      .cause = "rounding",
      .text = plainly(std::move(text)),
      .edit = {.norm = [=](const OpContext&, const NormCall& call,
                           Kernels& kernels) { run_rounded(rounding, rounded, call, kernels); }},
      .possible = [](const Network& network, Op) { return network.model != nullptr; }};
}

// The norm of k where it is one of q, or the other way round.
std::optional<Checkpoint> other_of_qk(Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kQNorm:
      return Checkpoint::kKNorm;
    case Checkpoint::kKNorm:
      return Checkpoint::kQNorm;
    case Checkpoint::kQRopeNorm:
      return Checkpoint::kKRopeNorm;
    case Checkpoint::kKRopeNorm:
      return Checkpoint::kQRopeNorm;
    default:
      return std::nullopt;
  }
}

// The norm before the feed-forward where it is that before the attention, or the other way round.
std::optional<Checkpoint> other_of_stream(Checkpoint checkpoint) {
  if (checkpoint == Checkpoint::kAttnNorm) return Checkpoint::kFfnNorm;
  if (checkpoint == Checkpoint::kFfnNorm) return Checkpoint::kAttnNorm;
  return std::nullopt;
}

using OtherNorm = std::optional<Checkpoint> (*)(Checkpoint);

bool has_like_norm(OtherNorm other_of, const Network& network, Op op) {
  const std::optional<Checkpoint> other = other_of(op.checkpoint);
  if (!other || network.model == nullptr || find_spec(network.layer(op.layer), *other) == nullptr) {
    return false;
  }
  const NormCall own = network.norm_call(op);
  const NormCall of_other = network.norm_call({*other, op.layer});
  return own.width == of_other.width && own.n_weights == of_other.n_weights;
}

// The norm with the weights of the one that `other_of` gives for it.
Mistake other_norm(const char* cause, const char* text, OtherNorm other_of) {
  return {.cause = cause,
          .text = plainly(text),
          .edit = {.norm =
                       [other_of](const OpContext& context, NormCall call, Kernels& kernels) {
                         const Op op = context.op();
                         const NormCall other =
                             context.network.norm_call({*other_of(op.checkpoint), op.layer});
                         call.weight = other.weight;
                         call.bias = other.bias;
                         kernels.run(call);
                       }},
          .possible = [other_of](const Network& network, Op op) {
            return has_like_norm(other_of, network, op);
          }};
}

}  // namespace

std::vector<Mistake> norm_number_mistakes() {
  std::vector<Mistake> mistakes = {
      other_norm("qk_norm", "has the weights of the other norm of q and k", other_of_qk),
      other_norm("norm_order", "has the weights of the other", other_of_stream)};
  mistakes.back().together = true;  // in one of them it is the weights of another norm
  for (const Rounding& rounding : kRoundings) {
    const std::string type = rounding.type;
    mistakes.push_back(rounded_norm(rounding, "rounds its weights to " + type, {.weight = true}));
    mistakes.push_back(
        rounded_norm(rounding, "rounds what it normalises to " + type, {.input = true}));
    mistakes.push_back(rounded_norm(rounding, "rounds what it normalises and the result to " + type,
                                    {.input = true, .result = true}));
    mistakes.push_back(rounded_norm(rounding, "is computed in " + type + " except for its sum",
                                    {.input = true, .weight = true, .result = true}));
    mistakes.push_back(rounded_norm(
        rounding, "is computed in " + type + " except for its sum, before its weights, too",
        {.input = true, .before_weight = true, .weight = true, .result = true}));
  }
  return mistakes;
}

}  // namespace assay::mistakes
