#pragma once

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// The sliding window, and which layers have it.
void read_window(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
