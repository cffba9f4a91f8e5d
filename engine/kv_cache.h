#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model_config.h"
#include "kernels/kernels.h"

namespace assay {

// Keys (after rotation) and values of all layers: for each layer [capacity, n_kv_heads, head_dim]
// and [capacity, n_kv_heads, value_dim].
class KvCache {
 public:
  // Throws Error if `capacity` positions do not fit into `memory`, which must outlive the cache.
  KvCache(const ModelConfig& config, KvType type, int64_t capacity, Memory& memory);

  int64_t capacity() const { return capacity_; }
  KvType type() const { return type_; }
  // Of the keys, or the values, of so many positions in a layer.
  size_t k_bytes(int64_t n_positions) const {
    return static_cast<size_t>(n_positions) * k_position_bytes_;
  }
  size_t v_bytes(int64_t n_positions) const {
    return static_cast<size_t>(n_positions) * v_position_bytes_;
  }
  size_t bytes() const { return k_.bytes() + v_.bytes(); }

  KvView layer(int64_t layer) const;
  // Where the key or value of `position` goes.
  void* k_slot(int64_t layer, int64_t position);
  void* v_slot(int64_t layer, int64_t position);

 private:
  int64_t row(int64_t layer, int64_t position) const { return layer * capacity_ + position; }

  KvType type_;
  int64_t capacity_;
  size_t k_position_bytes_;
  size_t v_position_bytes_;
  Buffer<std::byte> k_;
  Buffer<std::byte> v_;
};

}  // namespace assay
