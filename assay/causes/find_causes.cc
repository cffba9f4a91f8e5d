#include "assay/causes/find_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "assay/causes/error_sources.h"
#include "assay/causes/infer.h"
#include "assay/causes/network.h"
#include "assay/causes/search.h"
#include "base/error.h"

namespace assay {
namespace causes {
namespace {

// Elements of a checkpoint of this kind.
int64_t width_of(const ModelConfig& config, Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kQ:
    case Checkpoint::kQRope:
    case Checkpoint::kAttn:
      return config.q_width();
    case Checkpoint::kK:
    case Checkpoint::kKRope:
    case Checkpoint::kV:
      return config.kv_width();
    case Checkpoint::kFfnGate:
    case Checkpoint::kFfnUp:
    case Checkpoint::kFfnAct:
      return config.feed_forward_length;
    case Checkpoint::kLogits:
      return config.n_vocab;
    default:
      return config.embedding_length;
  }
}

// Throws Error if the logs cannot be of this model: the kernels trust the sizes they are given.
void check_model(const Model& model, const Comparison& comparison) {
  const ModelConfig& config = model.config();
  const std::string& path = model.gguf().path();
  const std::string hint = "give the model that both engines ran with --model, or leave it out";
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const std::optional<Op> op = find_op(name.name);
    if (!op) continue;
    if (op->layer >= config.n_layers) {
      throw Error(fmt::format("has {} layers, the logs have {}", config.n_layers, name.name), path,
                  hint);
    }
    const int64_t width = width_of(config, op->checkpoint);
    if (result.metrics.n != width) {
      throw Error(fmt::format("its {} has {} elements, in the logs it has {}", name.name, width,
                              result.metrics.n),
                  path, hint);
    }
    if (config.architecture->position == PositionKind::kLearned &&
        result.token_idx >= model.position_embedding.rows) {
      throw Error(fmt::format("has {} positions, the logs reach {}", model.position_embedding.rows,
                              result.token_idx),
                  path, hint);
    }
  }
}

void tell(const Judgement& judgement, Comparison& comparison) {
  if (judgement.cause) {
    comparison.causes.push_back(*judgement.cause);
  } else {
    comparison.cause_hint = judgement.hint;
  }
}

}  // namespace
}  // namespace causes

void find_causes(const Model* model, Comparison& comparison,
                 const std::function<void(int64_t done, int64_t total)>& progress) {
  if (comparison.pass || !comparison.first_divergence) return;
  const FirstDivergence& first = *comparison.first_divergence;
  const std::optional<causes::Op> target = causes::find_op(first.checkpoint.name);
  if (!target) {
    comparison.cause_hint = "the checkpoint's name is not one that Assay knows the computation of";
    return;
  }
  causes::TensorStore store(comparison);
  causes::Network network;
  for (const CheckpointName& name : comparison.checkpoints) {
    network.n_layers = std::max(network.n_layers, name.layer + 1);
  }
  if (model != nullptr) {
    causes::check_model(*model, comparison);
    int64_t positions = std::ssize(store.tokens());
    for (const RecordResult& result : comparison.results) {
      positions = std::max(positions, result.token_idx + 1);
    }
    network = causes::Network::of_model(*model, positions);
  }
  network.n_prompt = std::ssize(store.tokens());
  store.use_unjudged(false);
  find_error_sources(network, store, comparison);
  store.use_unjudged(true);
  causes::Op op = *target;
  std::set<causes::Op> tried;
  while (tried.insert(op).second) {
    causes::infer(store, op, network);
    causes::Search search(network, store, op, first.token_idx, progress);
    search.run();
    if (!search.is_inherited()) {
      causes::tell(search.judgement(), comparison);
      return;
    }
    const auto source = causes::worst_input(network, store, op);
    if (source) {
      op = *source;
      continue;
    }
    store.use_unjudged(false);
    causes::Search over(network, store, op, first.token_idx, progress);
    over.run();
    causes::Judgement judgement = over.judgement();
    if (over.is_inherited()) {
      judgement.hint = fmt::format(
          "{} of the judged log is what the model gives for inputs that both logs agree in: it is "
          "the reference that computes something else; give the logs the other way round to see "
          "what",
          op.name());
    } else if (!judgement.cause) {
      judgement.hint = fmt::format(
          "{} is what its inputs give, and the reference does not have these: log the reference "
          "with --checkpoints ops{}",
          op.name(), model == nullptr ? ", or give the model with --model" : "");
    }
    causes::tell(judgement, comparison);
    return;
  }
}

}  // namespace assay
