#pragma once

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// The heads of layers with and without a window, of kinds of models where they may be others
// (Architecture::windowed_heads): HfConfig::head_dim becomes that of layers without one.
void read_windowed_heads(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
