#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "assay/mistakes/mistake.h"

// A network with multipliers (Granite, MiniCPM) that is taken for one without: several of them are
// left out at once.
namespace assay::mistakes {
namespace {

enum Factor : uint8_t { kOfEmbedding = 1, kOfScores = 2, kOfStream = 4, kOfLogits = 8 };
constexpr Factor kFactors[] = {kOfEmbedding, kOfScores, kOfStream, kOfLogits};

int multiplier_at(Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kEmbedding:
      return kOfEmbedding;
    case Checkpoint::kAttn:
      return kOfScores;
    case Checkpoint::kAttnResidual:
    case Checkpoint::kFfnResidual:
    case Checkpoint::kOutput:
      return kOfStream;
    case Checkpoint::kLogits:
      return kOfLogits;
    default:
      return 0;
  }
}

float usual_scale(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
}

// Which the network has.
int multipliers_of(const Network& network) {
  if (network.model == nullptr) return 0;
  const ModelConfig& config = network.model->config();
  const AttentionShape shape = network.attention_shape({Checkpoint::kAttn, 0});
  const bool own_scores = find_spec(network.layer(0), Checkpoint::kAttn) != nullptr &&
                          shape.scale != usual_scale(shape);
  return (config.embedding_factor() != 1.0F ? kOfEmbedding : 0) | (own_scores ? kOfScores : 0) |
         (config.residual_factor() != 1.0F ? kOfStream : 0) |
         (config.logit_factor() != 1.0F ? kOfLogits : 0);
}

bool leaves_out(const OpContext& context) {
  return (static_cast<int>(context.parameter) & multiplier_at(context.site.checkpoint)) != 0;
}

void add_without(const OpContext& context, AddCall call, Kernels& kernels) {
  if (leaves_out(context)) call.scale = 1.0F;
  kernels.run(call);
}

void attend_without(const OpContext& context, AttentionCall call, Kernels& kernels) {
  if (leaves_out(context)) call.shape.scale = usual_scale(call.shape);
  kernels.run(call);
}

std::string names_of(int multipliers) {
  std::vector<std::string> names;
  for (const Factor one : kFactors) {
    if ((multipliers & one) == 0) continue;
    names.emplace_back(one == kOfEmbedding ? "the embedding"
                       : one == kOfScores  ? "the attention scores"
                       : one == kOfStream  ? "the residual stream"
                                           : "the logits");
  }
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) {
    text += (i + 1 < names.size() ? ", " : " and ") + names[i];
  }
  return text;
}

// Two or more: one alone has an entry of its own.
std::vector<double> several(const Network& network) {
  std::vector<double> sets;
  const int own = multipliers_of(network);
  for (unsigned set = 1; set <= (kOfEmbedding | kOfScores | kOfStream | kOfLogits); ++set) {
    if (std::popcount(set) > 1 && (set & ~static_cast<unsigned>(own)) == 0) sets.push_back(set);
  }
  return sets;
}

}  // namespace

std::vector<Mistake> multiplier_mistakes() {
  return {{.cause = "multipliers",
           .text =
               [](const Network&, double set) {
                 return fmt::format("leaves out the multipliers of {}",
                                    names_of(static_cast<int>(set)));
               },
           .edit = {.attention = attend_without, .add = add_without, .scale = add_without},
           .possible =
               [](const Network& network, Op op) {
                 return (multipliers_of(network) & multiplier_at(op.checkpoint)) != 0;
               },
           .grid = several,
           .together = true,
           .of_all_layers = true}};
}

}  // namespace assay::mistakes
