#pragma once

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// Of networks whose attention has ALiBi: what attn_config says. Throws Error where it asks for what
// Assay does not compute, or transformers computes something else.
void read_alibi(const ConfigObject& object, Keys& keys);

// The largest magnitude of queries, keys and values; refused of kinds that have none.
void read_clip(const ConfigObject& object, const HfConfig& config, Keys& keys);

// Caps of the scores and of the logits; refused of kinds that have none.
void read_soft_caps(const ConfigObject& object, const HfConfig& config, Keys& keys);

// Of networks whose scores have a temperature in layers without rotation.
void read_own_temperature(const ConfigObject& object, Keys& keys);

}  // namespace assay
