#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"

namespace assay {

KvCache::KvCache(const ModelConfig& config, KvType type, int64_t capacity, Memory& memory)
    : type_(type),
      capacity_(capacity),
      position_bytes_(static_cast<size_t>(config.kv_width()) * kv_element_bytes(type)) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(config.n_layers) * position_bytes_,
                             static_cast<size_t>(capacity), &bytes)) {
    bytes = SIZE_MAX;  // which no memory has
  }
  try {
    k_ = Buffer<std::byte>(memory, bytes);
    v_ = Buffer<std::byte>(memory, bytes);
  } catch (const Error& error) {
    throw Error(
        fmt::format("no memory for the keys and values of {} positions, twice {} bytes ({})",
                    capacity, bytes, error.what()),
        {}, "use a shorter prompt, a smaller -n, or --kv f16");
  }
}

size_t KvCache::offset(int64_t layer, int64_t position) const {
  return (static_cast<size_t>(layer) * static_cast<size_t>(capacity_) +
          static_cast<size_t>(position)) *
         position_bytes_;
}

KvView KvCache::layer(int64_t layer) const {
  return {type_, k_.data() + offset(layer, 0), v_.data() + offset(layer, 0)};
}

void* KvCache::k_slot(int64_t layer, int64_t position) {
  return k_.data() + offset(layer, position);
}

void* KvCache::v_slot(int64_t layer, int64_t position) {
  return v_.data() + offset(layer, position);
}

}  // namespace assay
