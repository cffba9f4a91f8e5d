#pragma once

#include <span>

#include "engine/config_keys.h"
#include "engine/model_config.h"

namespace assay {

// Of a file whose layers have experts: how they are chosen and how wide they are. Of `config` it
// takes the architecture, the number of layers and the width of a feed-forward.
void read_routing(const ConfigKeys& keys, ModelConfig& config);

// Of a layer of an architecture that takes half of the shared expert and of the others: all of
// both.
void add_whole_shared_expert(std::span<OpSpec> layer);

}  // namespace assay
