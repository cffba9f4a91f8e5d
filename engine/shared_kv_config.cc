#include "engine/shared_kv_config.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/hyperparameter_keys.h"

namespace assay {

int64_t n_layers_with_kv(const ConfigKeys& keys, const ModelConfig& config) {
  constexpr std::string_view kKey = hyperparameter::kSharedKvLayers;
  if (!has_checkpoint(*config.architecture, Checkpoint::kPleInput)) return config.n_layers;
  const int64_t shared = keys.integer(kKey, 0);
  if (shared < 0 || shared >= config.n_layers) {
    keys.reject(kKey, fmt::format("is {} of {} layers", shared, config.n_layers),
                "the first has to have keys and values of its own");
  }
  return config.n_layers - shared;
}

int kv_layer_of(const ConfigKeys& keys, const std::vector<bool>& windowed, int64_t number,
                int64_t n_own_kv) {
  for (int64_t other = n_own_kv; other-- > 0;) {
    if (windowed[static_cast<size_t>(other)] == windowed[static_cast<size_t>(number)]) {
      return static_cast<int>(other);
    }
  }
  keys.reject(hyperparameter::kSharedKvLayers,
              fmt::format("leaves layer {} without keys and values", number),
              "no layer before has the same window and keys of its own");
}

void check_kv(const ConfigKeys& keys, int64_t number, std::span<const OpSpec> layer) {
  const OpSpec* attention = find_spec(layer, Checkpoint::kAttn);
  if (attention == nullptr || find_spec(layer, attention->in[1]) != nullptr) return;
  throw Error(fmt::format("tensor 'blk.{}.attn_k.weight' is missing", number), keys.gguf().path(),
              fmt::format("or key '{}' is too small", keys.full(hyperparameter::kSharedKvLayers)));
}

}  // namespace assay
