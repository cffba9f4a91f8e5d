#include <algorithm>
#include <utility>

#include "assay/mistakes/mistake.h"

// Of the embeddings that layers have of their own (per-layer embeddings: Gemma 3n, 4).
namespace assay::mistakes {
namespace {

Mistake mistake_at(Checkpoint at, const char* text, KernelHooks edit, const char* name,
                   const char* what) {
  return {.cause = "layer_embedding",
          .text = plainly(text),
          .edit = std::move(edit),
          .possible =
              [at](const Network& network, Op op) {
                return op.checkpoint == at && network.model != nullptr && op.layer >= 0 &&
                       find_spec(network.layer(op.layer), Checkpoint::kPleInput) != nullptr;
              },
          .faults = {{.name = name,
                      .group = FaultGroup::kEmbedding,
                      .what = what,
                      .at = at,
                      .unsupported_reason =
                          needs("embeddings of layers",
                                [](const ModelConfig& config) { return config.ple_length > 0; }),
                      .in_arguments = true}}};
}

// A sum without one of its inputs.
KernelHooks keeping(const float* AddCall::*kept) {
  return {.add = [kept](const OpContext&, const AddCall& call, Kernels&) {
    std::copy_n(call.*kept, call.count, call.out);
  }};
}

void leave_unscaled(const OpContext&, AddCall call, Kernels& kernels) {
  call.scale = 1.0F;
  kernels.run(call);
}

// The part of the next layer, of the last that of the first. What is copied whole has no parts.
void take_part_of_next(const OpContext&, HeadsCall call, Kernels& kernels) {
  HeadParts& parts = call.parts;
  if (parts.own_count < parts.own_dim) {
    parts.own_first = (parts.own_first + parts.own_count) % parts.own_dim;
  }
  kernels.run(call);
}

void normalise_undivided(const OpContext& context, NormCall call, Kernels& kernels) {
  call.eps = context.network.model->config().norm_eps;
  kernels.run(call);
}

}  // namespace

std::vector<Mistake> layer_embedding_mistakes() {
  return {mistake_at(Checkpoint::kOutput, "leaves the layer's own embedding of the token out",
                     keeping(&AddCall::a), "ple-missing",
                     "a layer's own embedding of the token is left out"),
          mistake_at(Checkpoint::kPleEmbedding, "has the embedding of the layer after it",
                     {.heads = take_part_of_next}, "ple-of-next-layer",
                     "a layer has the embedding of the next, the last that of the first"),
          mistake_at(Checkpoint::kPleEmbedding,
                     "does not multiply the layer's embedding by the root of its length",
                     {.scale = leave_unscaled}, "ple-scale-missing",
                     "a layer's embedding is not multiplied by the root of its length"),
          mistake_at(Checkpoint::kPleProjNorm,
                     "does not divide what it normalises by the root of the width",
                     {.norm = normalise_undivided}, "ple-root-missing",
                     "the product of the embedding is not divided by the root of the width"),
          mistake_at(Checkpoint::kPleInput, "leaves the product of the network's embedding out",
                     keeping(&AddCall::b), "ple-projection-missing",
                     "a layer's embedding has no product of the network's added to it"),
          mistake_at(Checkpoint::kPleInput, "leaves the layer's embedding of the token out",
                     keeping(&AddCall::a), "ple-embedding-missing",
                     "a layer has the product of the network's embedding alone"),
          mistake_at(Checkpoint::kPleInput,
                     "does not divide the sum of both embeddings by the root of 2",
                     {.scale = leave_unscaled}, "ple-sum-unscaled",
                     "the sum of both embeddings is not divided by the root of 2")};
}

}  // namespace assay::mistakes
