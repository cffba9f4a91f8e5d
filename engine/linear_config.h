#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/config_keys.h"
#include "engine/model_config.h"

namespace assay {

constexpr int64_t kMaxLinearHead = 65536;              // elements of a head's keys or values
constexpr int64_t kMaxLinearWidth = int64_t{1} << 20;  // of all heads
constexpr int64_t kMaxAttentionPeriod = 4096;          // layers

// The sizes of convolutions, of linear attention or of a state space model, where the architecture
// has them. Throws Error that names the key.
void read_linear_attention(const ConfigKeys& keys, ModelConfig& config);

// Of Mamba: `inner` heads of one value each, which read the same key.
inline DeltaShape mamba_shape(int64_t inner, int64_t state) {
  return {.n_key_heads = 1,
          .n_value_heads = inner,
          .key_dim = state,
          .value_dim = 1,
          .own_decays = true};
}

// Whether each layer has linear attention, as the file says; empty where the architecture has none.
std::vector<bool> linear_layers(const ConfigKeys& keys, const ModelConfig& config);

// Of a product that has, for each key head, its query, its key, its value heads and their gates:
// the row that is row i of kLinearQkv, or of kLinearZ.
std::vector<int64_t> rows_by_key_head(const DeltaShape& shape, Checkpoint part);

// Throws Error where the tensors of layer `number` are not those of the kind that the file says.
void check_linear(const ConfigKeys& keys, int64_t number, bool is_linear,
                  std::span<const OpSpec> layer);

}  // namespace assay
