#include "assay/causes/model_fit.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "assay/causes/search_places.h"
#include "assay/compare/log_index.h"
#include "base/error.h"

namespace assay::causes {

using mistakes::Network;
using mistakes::Op;

namespace {

constexpr const char* kModelHint =
    "give the model that both engines ran with --model, or leave it out";

}  // namespace

void check_architecture(const Model& model, const Comparison& comparison) {
  const Architecture* held = model.config().architecture;
  for (const auto* log : {comparison.ref_log.get(), comparison.got_log.get()}) {
    if (!log->header()) continue;
    const std::string& stated = log->header()->model.arch;
    const Architecture* architecture = find_architecture(stated);
    if (architecture == nullptr || architecture == held) continue;
    throw Error(fmt::format("is of the architecture {}, and the log {} of {}", held->name,
                            log->path(), stated),
                model.gguf().path(), kModelHint);
  }
}

// The kernels trust the sizes they are given.
void check_model(const Network& network, const Comparison& comparison) {
  const Model& model = *network.model;
  const ModelConfig& config = model.config();
  const std::string& path = model.gguf().path();
  check_architecture(model, comparison);
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const std::optional<Op> op = find_op(name.name);
    if (!op) continue;
    if (op->layer >= config.n_layers) {
      throw Error(fmt::format("has {} layers, the logs have {}", config.n_layers, name.name), path,
                  kModelHint);
    }
    const int64_t width = network.width(*op);
    if (result.metrics.n != width) {
      throw Error(fmt::format("its {} has {} elements, in the logs it has {}", name.name, width,
                              result.metrics.n),
                  path, kModelHint);
    }
    if (config.architecture->position == PositionKind::kLearned &&
        result.token_idx >= model.position_embedding.rows) {
      throw Error(fmt::format("has {} positions, the logs reach {}", model.position_embedding.rows,
                              result.token_idx),
                  path, kModelHint);
    }
  }
}

}  // namespace assay::causes
