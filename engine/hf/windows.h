#pragma once

#include <vector>

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// Whether each layer is rotated: by a list of numbers 1 and 0, or all but every nth. Empty where
// config.json leaves that to the architecture.
std::vector<bool> rotated_layers(const ConfigObject& object, const HfConfig& config);

// The sliding window, and which layers have it.
void read_window(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
