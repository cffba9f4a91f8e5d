#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model_config.h"
#include "kernels/kernels.h"

namespace assay {

// What ops read at earlier positions (reads_back), of all layers: keys (after rotation) and values,
// [capacity, n_kv_heads, head_dim] and [capacity, n_kv_heads, value_dim] of a layer, or what a
// convolution sums, one or two factors, [capacity, width] each and always as f32. In a layer that
// has attention as well, it sums one, which is kept beside keys and values; so are the keys by
// which attention's positions are chosen. Layers of linear
// attention, and those with a state space model, have a state as well, of DeltaShape::state_size()
// elements, as f32.
class KvCache {
 public:
  // Throws Error if `capacity` positions do not fit into `memory`, which must outlive the cache.
  KvCache(const ModelConfig& config, KvType type, int64_t capacity, Memory& memory);

  int64_t capacity() const { return capacity_; }
  KvType type() const { return type_; }  // of keys and values
  // What a layer keeps its vectors as.
  KvType type(int64_t layer) const { return of(layer).type; }
  // Of the keys, or the values, of so many positions in a layer.
  size_t k_bytes(int64_t layer, int64_t n_positions) const {
    return static_cast<size_t>(n_positions) * of(layer).k_position_bytes;
  }
  size_t v_bytes(int64_t layer, int64_t n_positions) const {
    return static_cast<size_t>(n_positions) * of(layer).v_position_bytes;
  }
  // Of what a convolution or a choice of positions beside attention reads; 0 in other layers.
  size_t beside_bytes(int64_t layer, int64_t n_positions) const {
    return static_cast<size_t>(n_positions) * of(layer).beside_position_bytes;
  }
  // Of one position in all layers.
  size_t position_bytes() const;
  size_t state_bytes(int64_t layer) const { return of(layer).state_bytes; }
  // Of all layers.
  size_t state_bytes() const { return states_.bytes(); }
  size_t bytes() const { return k_.bytes() + v_.bytes() + beside_.bytes() + states_.bytes(); }

  KvView layer(int64_t layer) const;
  // What the layer's convolution or choice of positions reads, as keys.
  KvView of_other(int64_t layer) const;
  // Where the key or value of `position` goes.
  void* k_slot(int64_t layer, int64_t position);
  void* v_slot(int64_t layer, int64_t position);
  void* beside_slot(int64_t layer, int64_t position);
  // Where that goes: beside keys and values, or in their place.
  void* slot_of_other(int64_t layer, int64_t position);
  float* state(int64_t layer);

 private:
  struct Layer {
    KvType type = KvType::kF32;
    size_t k_position_bytes = 0;
    size_t v_position_bytes = 0;
    size_t k_begin = 0;  // in k_
    size_t v_begin = 0;
    size_t beside_position_bytes = 0;
    size_t beside_begin = 0;  // in beside_
    size_t state_bytes = 0;
    size_t state_begin = 0;  // in states_
  };
  const Layer& of(int64_t layer) const { return layers_[static_cast<size_t>(layer)]; }

  KvType type_;
  int64_t capacity_;
  std::vector<Layer> layers_;
  Buffer<std::byte> k_;
  Buffer<std::byte> v_;
  Buffer<std::byte> beside_;
  Buffer<std::byte> states_;
};

}  // namespace assay
