#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"

namespace assay {

// What each layer is, where config.json lists it: the names that transformers gives the kinds of
// layers, or those of older files.
std::vector<std::string> layer_types(const ConfigObject& object);

// Whether a kind of layer has a state space model.
bool is_mamba(std::string_view layer_type);
// Whether it has attention.
bool is_attention(std::string_view layer_type);

// Whether it has a feed-forward and nothing else.
bool is_feed_forward(std::string_view layer_type);
// Whether it has experts and nothing else.
bool is_of_experts(std::string_view layer_type);

// Which layers have experts, where the class says so by a period and the first; else empty.
std::vector<bool> expert_layers_by_period(const ConfigObject& object);

// The sizes of Mamba or Mamba-2, where the architecture has it.
void read_mamba(const ConfigObject& object, HfConfig& config, Keys& keys);

}  // namespace assay
