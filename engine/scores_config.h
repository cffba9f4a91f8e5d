#pragma once

#include "engine/config_keys.h"
#include "engine/model_config.h"

namespace assay {

// What a file says of the attention's scores. Each throws Error that names the key if it is out of
// range, or asks for what Assay does not compute.

// The largest magnitude of queries, keys and values.
void read_clip(const ConfigKeys& keys, ModelConfig& config);

// Caps of the scores and of the logits.
void read_soft_caps(const ConfigKeys& keys, ModelConfig& config);

// The temperature of late queries; after rope_original_context_length.
void read_temperature(const ConfigKeys& keys, ModelConfig& config);

// What the attention's results are multiplied by.
void read_value_scale(const ConfigKeys& keys, ModelConfig& config);

// Of architectures that have it.
void read_alibi(const ConfigKeys& keys, ModelConfig& config);

}  // namespace assay
