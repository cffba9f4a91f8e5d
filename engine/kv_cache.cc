#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"

namespace assay {

KvCache::KvCache(const ModelConfig& config, KvType type, int64_t capacity, Memory& memory)
    : type_(type),
      capacity_(capacity),
      k_position_bytes_(static_cast<size_t>(config.width(Width::kKv)) * kv_element_bytes(type)),
      v_position_bytes_(static_cast<size_t>(config.width(Width::kValues)) *
                        kv_element_bytes(type)) {
  const auto all = [&](size_t position_bytes) {
    size_t bytes = 0;
    const bool overflow =
        __builtin_mul_overflow(static_cast<size_t>(config.n_layers) * position_bytes,
                               static_cast<size_t>(capacity), &bytes);
    return overflow ? SIZE_MAX : bytes;  // which no memory has
  };
  const size_t k_bytes = all(k_position_bytes_);
  const size_t v_bytes = all(v_position_bytes_);
  try {
    k_ = Buffer<std::byte>(memory, k_bytes);
    v_ = Buffer<std::byte>(memory, v_bytes);
  } catch (const Error& error) {
    throw Error(fmt::format("no memory for the keys and values of {} positions, {} and {} bytes "
                            "({})",
                            capacity, k_bytes, v_bytes, error.what()),
                {}, "use a shorter prompt, a smaller -n, or --kv f16");
  }
}

KvView KvCache::layer(int64_t layer) const {
  return {type_, k_.data() + k_bytes(row(layer, 0)), v_.data() + v_bytes(row(layer, 0))};
}

void* KvCache::k_slot(int64_t layer, int64_t position) {
  return k_.data() + k_bytes(row(layer, position));
}

void* KvCache::v_slot(int64_t layer, int64_t position) {
  return v_.data() + v_bytes(row(layer, position));
}

}  // namespace assay
