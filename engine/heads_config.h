#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/config_keys.h"
#include "engine/model_config.h"

namespace assay {

inline constexpr int64_t kMaxModelWidth = int64_t{1} << 20;

// The number and the sizes of heads; of layers with a window, where these have their own, they are
// not known yet.
void read_heads(const ConfigKeys& keys, ModelConfig& config);

// What may be of its own in layers with a window, `windowed` saying which have one: the rotary
// base, and the heads; these are given where they are not the model's.
std::optional<HeadSizes> read_windowed_heads(const ConfigKeys& keys,
                                             const std::vector<bool>& windowed,
                                             ModelConfig& config);

// How attention chooses positions, where it does; needs rotary_dim.
void read_index(const ConfigKeys& keys, ModelConfig& config);

// The layer whose positions the next one sees, as `layer` has or lacks a choice of its own; -1: its
// own, or all. Tensors and a file that says which layers choose must agree.
int index_layer_of(const ConfigKeys& keys, const ModelConfig& config, int64_t number,
                   std::span<const OpSpec> layer);

// Tensors and a file that says which layers have attention must agree. `heads` are those of keys in
// each layer, or empty.
void check_attention(const ConfigKeys& keys, std::span<const int64_t> heads, int64_t number,
                     std::span<const OpSpec> layer);

}  // namespace assay
