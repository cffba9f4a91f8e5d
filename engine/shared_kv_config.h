#pragma once

#include <span>
#include <vector>

#include "engine/config_keys.h"
#include "engine/model_config.h"

// Layers that read the keys and values of earlier ones (Gemma 3n, 4).
namespace assay {

// How many layers, from the first on, have keys and values of their own; the others read those of
// the last such layer that has a window as they have, or none as they.
int64_t n_layers_with_kv(const ConfigKeys& keys, const ModelConfig& config);

int kv_layer_of(const ConfigKeys& keys, const std::vector<bool>& windowed, int64_t number,
                int64_t n_own_kv);

// That a layer which is not one of them has keys.
void check_kv(const ConfigKeys& keys, int64_t number, std::span<const OpSpec> layer);

}  // namespace assay
