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

// The kernels trust the sizes they are given.
void check_model(const Network& network, const Comparison& comparison) {
  const Model& model = *network.model;
  const ModelConfig& config = model.config();
  const std::string& path = model.gguf().path();
  const std::string hint = "give the model that both engines ran with --model, or leave it out";
  for (const auto* log : {comparison.ref_log.get(), comparison.got_log.get()}) {
    if (!log->header()) continue;
    const std::string& stated = log->header()->model.arch;
    const Architecture* architecture = find_architecture(stated);
    if (architecture == nullptr || architecture == config.architecture) continue;
    throw Error(fmt::format("is of the architecture {}, and the log {} of {}",
                            config.architecture->name, log->path(), stated),
                path, hint);
  }
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    const std::optional<Op> op = find_op(name.name);
    if (!op) continue;
    if (op->layer >= config.n_layers) {
      throw Error(fmt::format("has {} layers, the logs have {}", config.n_layers, name.name), path,
                  hint);
    }
    const int64_t width = network.width(*op);
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

}  // namespace assay::causes
