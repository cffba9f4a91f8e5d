#pragma once

#include "engine/hf/config.h"
#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// How attention chooses the positions that it sees, where it does, and in which layers.
void read_indexer(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
