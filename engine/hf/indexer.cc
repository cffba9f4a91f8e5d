#include "engine/hf/indexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/model_config.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr char kIndexerTypes[] = "indexer_types";
constexpr char kIndexerPattern[] = "index_topk_pattern";
constexpr char kIndexerPeriod[] = "index_topk_freq";
constexpr char kIndexerOffset[] = "index_skip_topk_offset";

// "full" or "shared" of each layer, or as letters; the others by a period.
std::vector<bool> indexed_layers(const ConfigObject& object, const HfConfig& config) {
  const auto count = static_cast<size_t>(config.n_layers);
  const bool in_letters = object.find(kIndexerTypes) == nullptr &&
                          object.find(kIndexerPattern) != nullptr &&
                          object.find(kIndexerPattern)->IsString();
  const char* key = object.find(kIndexerTypes) != nullptr ? kIndexerTypes : kIndexerPattern;
  std::vector<std::string> types;
  if (in_letters) {
    for (const char letter : object.text({kIndexerPattern}, "")) {
      types.push_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : std::string(1, letter));
    }
  } else {
    types = object.texts(key);
  }
  std::vector<bool> layers(count, true);
  if (object.find(key) == nullptr) {
    const int64_t period =
        std::max<int64_t>(object.whole_or_zero(kIndexerPeriod, kMaxLayers, 1), 1);
    const int64_t offset = object.whole_or_zero(kIndexerOffset, kMaxLayers, 2);
    for (int64_t i = 0; i < config.n_layers; ++i) {
      layers[static_cast<size_t>(i)] = std::max<int64_t>(i - offset + 1, 0) % period == 0;
    }
    return layers;
  }
  if (types.size() < count) {
    object.refuse(key, fmt::format("has {} entries for {} layers", types.size(), count));
  }
  for (size_t i = 0; i < count; ++i) {
    if (types[i] != "full" && types[i] != "shared") {
      object.refuse(key, fmt::format("has '{}'", types[i]), "Assay computes full and shared");
    }
    layers[i] = types[i] == "full";
  }
  return layers;
}

}  // namespace

void read_indexer(const ConfigObject& object, HfConfig& config, Keys& keys) {
  if (!has_checkpoint(*config.architecture, Checkpoint::kIndexed)) return;
  keys.whole(hyperparameter::kIndexHeads, object.whole({"index_n_heads"}, kMaxHeads));
  keys.whole(hyperparameter::kIndexKeyLength, object.whole({"index_head_dim"}, 65536));
  keys.whole(hyperparameter::kIndexTopK, object.whole({"index_topk"}, kMostPositions - 1));
  if (!config.model->shared_indexer) return;
  config.indexed = indexed_layers(object, config);
  if (!config.indexed.front()) {
    object.refuse(object.present({kIndexerTypes, kIndexerPattern, kIndexerPeriod}),
                  "leaves the first layer without one",
                  "no earlier layer chooses the positions that it sees");
  }
  keys.flags(hyperparameter::kIndexTypes, config.indexed);
}

}  // namespace assay
