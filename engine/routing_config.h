#pragma once

#include "engine/config_keys.h"
#include "engine/model_config.h"

namespace assay {

// Of a file whose layers have experts: how they are chosen and how wide they are. Of `config` it
// takes the architecture, the number of layers and the width of a feed-forward.
void read_routing(const ConfigKeys& keys, ModelConfig& config);

}  // namespace assay
