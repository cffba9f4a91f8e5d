#include "assay/causes/own_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "assay/causes/distance.h"
#include "assay/compare/log_probabilities.h"
#include "assay/record/prompt.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay::causes {
namespace {

using mistakes::Inputs;
using mistakes::Matrix;
using mistakes::Network;
using mistakes::Op;

class Tokens {
 public:
  Tokens(const Network& network, const LogIndex& log, int64_t first, double limit, ThreadPool& pool)
      : network_(network),
        log_(log),
        first_(first),
        limit_(limit),
        pool_(pool),
        loader_(log.loader()),
        n_ids_(network.model->token_embedding.rows) {}

  OwnToken named(int64_t position) const {
    const int64_t id = log_.header()->tokens[static_cast<size_t>(position)];
    return {id >= 0 && id < n_ids_ ? static_cast<int32_t>(id) : -1};
  }

  OwnToken after_the_prompt(int64_t position) {
    const bool is_drawn = !log_.header()->sampling.empty();
    const int32_t chosen = chosen_before(position);
    const std::optional<std::vector<float>> embedding = all_values(kEmbeddingName, position);
    if (!embedding || std::ssize(*embedding) != network_.model->token_embedding.columns) {
      return {is_drawn ? -1 : chosen};
    }
    if (chosen >= 0 && distance_to(chosen, 1, position, *embedding).second <= limit_) {
      return {chosen};
    }
    const int32_t id = nearest(position, *embedding);
    return {id, !is_drawn && chosen >= 0 && !is_level(id, chosen, position)};
  }

 private:
  static constexpr std::string_view kEmbeddingName = "embedding";
  using Near = std::pair<int32_t, double>;  // an id and how far it is

  std::optional<std::vector<float>> all_values(std::string_view checkpoint, int64_t position) {
    const int32_t id = log_.names().find(std::string(checkpoint));
    const int64_t entry = id < 0 ? -1 : log_.find(id, position + first_);
    if (entry < 0) return std::nullopt;
    const Record& record = log_.load(log_.entry(entry), loader_);
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!record.has_all_values() || !std::ranges::all_of(record.values, is_finite)) {
      return std::nullopt;
    }
    return record.values;
  }

  std::optional<std::vector<float>> logits_before(int64_t position) {
    std::optional<std::vector<float>> logits = all_values(kLogitsName, position - 1);
    return logits ? logits : all_values(kLogProbabilitiesName, position - 1);
  }

  // Whether another engine may have taken `id` in place of the first of equally large logits.
  bool is_level(int32_t id, int32_t chosen, int64_t position) {
    const std::vector<float> logits = *logits_before(position);
    return id >= 0 && id < std::ssize(logits) &&
           logits[static_cast<size_t>(id)] >= logits[static_cast<size_t>(chosen)];
  }

  // The first of the largest logits; -1 where they are not known.
  int32_t chosen_before(int64_t position) {
    const std::optional<std::vector<float>> logits = logits_before(position);
    if (!logits || std::ssize(*logits) > n_ids_) return -1;
    const std::vector<bool>& may_be = choosable();
    int32_t best = -1;
    for (size_t id = 0; id < std::min(logits->size(), may_be.size()); ++id) {
      if (!may_be[id]) continue;
      if (best < 0 || (*logits)[id] > (*logits)[static_cast<size_t>(best)]) {
        best = static_cast<int32_t>(id);
      }
    }
    return best;
  }

  const std::vector<bool>& choosable() {
    if (choosable_.empty()) choosable_ = choosable_ids(*network_.model);
    return choosable_;
  }

  // The nearest of `count` ids from `id` on.
  Near distance_to(int32_t id, int32_t count, int64_t position,
                   std::span<const float> embedding) const {
    Inputs inputs;
    for (int32_t i = 0; i < count; ++i) {
      inputs.tokens.push_back(id + i);
      inputs.positions.push_back(position);
    }
    const Matrix rows = network_.compute({Checkpoint::kEmbedding, -1}, inputs);
    Near near{id, std::numeric_limits<double>::infinity()};
    for (int32_t i = 0; i < count; ++i) {
      const double distance = relative_distance(rows.row_span(i), embedding);
      if (distance < near.second) near = {id + i, distance};
    }
    return near;
  }

  int32_t nearest(int64_t position, std::span<const float> embedding) {
    constexpr int32_t kAtOnce = 64;
    Near near{-1, std::numeric_limits<double>::infinity()};
    std::mutex mutex;
    pool_.parallel_for(n_ids_, kAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t id = begin; id < end; id += kAtOnce) {
        check_interrupted();
        const auto count = static_cast<int32_t>(std::min<int64_t>(kAtOnce, end - id));
        const Near found = distance_to(static_cast<int32_t>(id), count, position, embedding);
        const std::lock_guard lock(mutex);
        if (std::pair(found.second, found.first) < std::pair(near.second, near.first)) near = found;
      }
    });
    return near.first;
  }

  const Network& network_;
  const LogIndex& log_;
  int64_t first_;
  double limit_;
  ThreadPool& pool_;
  IndexLoader loader_;
  int64_t n_ids_;
  std::vector<bool> choosable_;  // once they are needed
};

}  // namespace

std::vector<bool> choosable_ids(const Model& model) {
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    std::string unknown;
    tokenizer = Tokenizer::from_gguf(model.gguf(), &unknown);
  } catch (const Error&) {
    // Without its vocabulary any id may be chosen.
  }
  return choosable_tokens(tokenizer.get(), model.config().n_vocab);
}

std::vector<OwnToken> own_tokens(const Network& network, const LogIndex& log,
                                 const std::vector<int64_t>& positions, int64_t first, double limit,
                                 ThreadPool& pool) {
  std::vector<OwnToken> found(positions.size());
  if (!log.header() || log.header()->tokens.empty()) return found;
  const ModelConfig& config = network.model->config();
  const bool learned = config.architecture->position == PositionKind::kLearned;
  Tokens tokens(network, log, first, limit, pool);
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t position = positions[i];
    if (learned && position >= network.model->position_embedding.rows) break;
    found[i] = position < std::ssize(log.header()->tokens) ? tokens.named(position)
                                                           : tokens.after_the_prompt(position);
  }
  return found;
}

}  // namespace assay::causes
