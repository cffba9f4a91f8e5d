// How a session looks up embeddings: those of the network, and those that layers have of their own.
#include "engine/rope_table.h"
#include "engine/session.h"

namespace assay {

void Session::embed(std::span<const int32_t> tokens) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t width = config_.embedding_length;
  const bool learned = config_.architecture->position == PositionKind::kLearned;
  const OpSite whole = site(Checkpoint::kEmbedding, 0, {0, n_tokens});
  OpSite part = whole;
  part.finishes = false;
  float* x = residual_stream();
  memory_.upload(tokens.data(), tokens.size_bytes(), ids_.data());
  const float factor = config_.embedding_factor();
  const bool normed = config_.architecture->embedding_norm;
  const OpSite rows = learned || normed || factor != 1.0F ? part : whole;
  kernels_.run(GetRowsCall{weights_.token_embedding, ids_.data(), n_tokens, x, false, rows});
  if (factor != 1.0F) {
    kernels_.run(AddCall{nullptr, x, n_tokens * width, x, learned ? part : whole, factor});
  }
  if (normed) {
    kernels_.run(NormCall{config_.norm, x, weights_.embedding_norm.weight,
                          weights_.embedding_norm.bias, config_.norm_eps, n_tokens, width, x,
                          whole});
  }
  if (learned) {
    std::vector<int32_t> positions(tokens.size());
    for (int64_t t = 0; t < n_tokens; ++t) {
      positions[static_cast<size_t>(t)] = static_cast<int32_t>(n_positions_ + t);
    }
    memory_.upload(positions.data(), positions.size() * sizeof(int32_t), ids_.data());
    kernels_.run(GetRowsCall{weights_.position_embedding, ids_.data(), n_tokens, normed_.data(),
                             true, part});
    kernels_.run(AddCall{x, normed_.data(), n_tokens * width, x, whole});
  } else {
    const auto angles = rope_table(config_, rope_factors_, n_positions_, n_tokens);
    memory_.upload(angles.data(), angles.size() * sizeof(float), cos_sin_.data());
    if (local_cos_sin_.size() > 0) {
      const auto local = rope_table(config_, {}, n_positions_, n_tokens, true);
      memory_.upload(local.data(), local.size() * sizeof(float), local_cos_sin_.data());
    }
  }
  observe(whole, width, x);
}

// What layers with embeddings of their own read of the tokens; ids_ still has those.
void Session::keep_embedding(std::span<const int32_t> tokens) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t width = config_.embedding_length;
  OpSite part = site(Checkpoint::kPleEmbedding, 0, {0, n_tokens});
  part.finishes = false;
  kernels_.run(HeadsCall{
      residual_stream(), nullptr, {width, 0, width}, n_tokens, 1, embedding_.data(), part});
  if (weights_.lacks_ple_rows()) {
    const std::vector<int32_t> rows = weights_.ple_rows(tokens);
    memory_.upload(rows.data(), rows.size() * sizeof(int32_t), ids_.data());
  }
  kernels_.run(
      GetRowsCall{weights_.ple_embedding, ids_.data(), n_tokens, ple_rows_.data(), false, part});
}

// The layer's part of the rows that keep_embedding() took.
void Session::run_ple_embedding(const OpSpec& op, int layer, const TokenRange& tokens) {
  const HeadParts parts = config_.ple_parts(layer);
  const OpSite whole = site(op.out, layer, tokens);
  OpSite part = whole;
  part.finishes = false;
  float* out = value(op.out, layer, tokens.first);
  kernels_.run(HeadsCall{ple_rows_.data() + tokens.first * parts.own_dim, nullptr, parts,
                         tokens.count, 1, out, part});
  kernels_.run(
      AddCall{nullptr, out, tokens.count * config_.ple_length, out, whole, config_.ple_factor()});
}

}  // namespace assay
