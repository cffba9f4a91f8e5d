#pragma once

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// How wide a config.json says that feed-forwards without experts are.
void read_feed_forward(const ConfigObject& object, HfConfig& config, Keys& keys);

// What a config.json says of experts: their numbers, which layers have them, and how they are
// chosen and weighed.
void read_expert_config(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
