#include <algorithm>
#include <memory>
#include <utility>

#include "assay/mistakes/network.h"
#include "engine/model.h"
#include "engine/rope_table.h"

// What Network takes from a model.
namespace assay::mistakes {

Network Network::of_model(const Model& model, int64_t n_positions) {
  const ModelConfig& config = model.config();
  const Architecture& architecture = *config.architecture;
  Network network;
  network.n_layers = static_cast<int>(config.n_layers);
  network.n_heads = config.n_heads;
  network.n_kv_heads = config.n_kv_heads;
  network.head_dim = config.head_dim;
  network.own_value_dim = config.value_dim;
  network.window = config.sliding_window;
  network.activation = activation_of(config.activation);
  network.norm = config.norm;
  network.eps = config.norm_eps;
  if (architecture.position == PositionKind::kRotary) {
    network.rope = RopeSettings();
    network.rope->pairing = architecture.rope_pairing;
    network.rope->head_dim = config.head_dim;
    network.rope->first_turned = config.first_turned();
    network.rope_factors = rope_factors_for(model, n_positions);
    network.rope->frequencies = rotary_frequencies(config, network.rope_factors);
    network.rope->base = config.rope_freq_base;
    network.rope->factor = config.rope_attn_factor;
    network.rope->backwards = architecture.rope_backwards;
    if (config.index.n_heads > 0) {
      network.index_rope = *network.rope;
      network.index_rope.pairing = architecture.index_pairing;
      network.index_rope.head_dim = config.index.head_dim;
      network.index_rope.first_turned = 0;
    }
    if (config.local_rope_freq_base > 0.0) {
      network.local_rope = *network.rope;
      const auto local = std::ranges::find(config.layers, true, &LayerConfig::local_rope);
      if (local != config.layers.end()) network.local_rope.head_dim = config.heads(*local).head_dim;
      network.local_rope.frequencies = rotary_frequencies(config, {}, true);
      network.local_rope.base = config.local_rope_freq_base;
      network.local_rope.factor = 1.0;
    }
  }
  network.model = &model;
  network.output_linear_ = model.output;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.own_heads || network.own_heads_ != nullptr) continue;
    auto other = std::make_shared<Network>(network);
    other->n_kv_heads = layer.own_heads->n_kv_heads;
    other->head_dim = layer.own_heads->head_dim;
    other->own_value_dim = layer.own_heads->value_dim;
    network.own_heads_ = std::move(other);
  }
  return network;
}

}  // namespace assay::mistakes
