#include "engine/streams_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "model/hyperparameter_keys.h"

namespace assay {

void read_streams(const ConfigKeys& keys, ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (!has_checkpoint(architecture, Checkpoint::kPredictions)) return;
  constexpr std::string_view kCount = hyperparameter::kStreamCount;
  config.n_streams = keys.count_or(kCount, StreamsCall::kMostStreams, architecture.default_streams);
  if (config.n_streams < 2) {
    keys.reject(kCount, fmt::format("is {}", config.n_streams),
                "Assay runs models of this architecture with 2 streams or more");
  }
  keys.reject_unless(hyperparameter::kActiveStream, 0.0,
                     "Assay runs models whose first stream "
                     "goes through the layers");
  if (config.ple_length == 0) {
    keys.reject(hyperparameter::kLayerEmbeddingLength, "is missing or 0",
                "layers of this architecture have embeddings of their own");
  }
  if (const GgufTensor* left = keys.gguf().find_tensor("blk.0.laurel_l.weight")) {
    config.laurel_rank = left->rows();
  }
}

std::vector<double> read_cutoffs(const ConfigKeys& keys, const ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (!has_checkpoint(architecture, Checkpoint::kFfnCutoff)) return {};
  constexpr std::string_view kKey = hyperparameter::kCutoffs;
  const auto count = static_cast<size_t>(config.n_layers);
  if (keys.has(kKey)) {
    std::vector<double> stated = keys.gguf().get_floats(keys.full(kKey));
    if (stated.size() != count) {
      keys.reject(kKey, fmt::format("has {} entries for {} layers", stated.size(), count));
    }
    return stated;
  }
  std::vector<double> cutoffs(count, -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < count && static_cast<int64_t>(i) < architecture.default_cutoff_layers;
       ++i) {
    cutoffs[i] = architecture.default_cutoff;
  }
  return cutoffs;
}

void set_cutoff(const ConfigKeys& keys, double cutoff, LayerConfig& layer) {
  if (cutoff == -std::numeric_limits<double>::infinity()) {
    layer.ops = without_cutoff(layer.ops);
    return;
  }
  layer.cutoff = static_cast<float>(cutoff);
  if (!std::isfinite(layer.cutoff)) {
    keys.reject(hyperparameter::kCutoffs, fmt::format("has a layer of {}", cutoff),
                "a cutoff is a number, or -infinity");
  }
}

}  // namespace assay
