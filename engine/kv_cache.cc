#include "engine/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace assay {
namespace {

// Where what comes next begins; the largest number there is, which no memory has, if that
// overflows.
size_t end_of(size_t begin, size_t position_bytes, int64_t capacity) {
  size_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(position_bytes, static_cast<size_t>(capacity), &bytes) ||
      __builtin_add_overflow(bytes, begin, &bytes);
  return overflow ? SIZE_MAX : bytes;
}

}  // namespace

KvCache::KvCache(const ModelConfig& config, KvType type, int64_t capacity, Memory& memory)
    : type_(type), capacity_(capacity) {
  size_t k_bytes = 0;
  size_t v_bytes = 0;
  size_t beside_bytes = 0;
  size_t all_states = 0;
  for (const LayerConfig& each : config.layers) {
    Layer layer;
    const auto other = std::ranges::find_if(each.ops, [](const OpSpec& op) {
      return op.kind == OpKind::kConv || op.kind == OpKind::kIndex;
    });
    const auto attention = std::ranges::find(each.ops, OpKind::kAttention, &OpSpec::kind);
    const bool has_both = other != each.ops.end() && attention != each.ops.end();
    const auto op =
        has_both ? attention : std::ranges::find_if(each.ops, reads_back, &OpSpec::kind);
    if (has_both) {
      const Width width =
          find_spec(each.ops, other->in[static_cast<size_t>(first_read_back(*other))])->width;
      layer.beside_position_bytes = static_cast<size_t>(config.width(width, each)) * sizeof(float);
    }
    if (op != each.ops.end() && each.kv_layer < 0) {
      layer.type = op->kind == OpKind::kConv ? KvType::kF32 : type;
      const auto bytes_of = [&](Checkpoint input) {
        return static_cast<size_t>(config.width(find_spec(each.ops, input)->width, each)) *
               kv_element_bytes(layer.type);
      };
      const auto kept = op->inputs().subspan(static_cast<size_t>(first_read_back(*op)));
      layer.k_position_bytes = bytes_of(kept[0]);
      if (kept.size() > 1) layer.v_position_bytes = bytes_of(kept[1]);
    }
    if (std::ranges::any_of(each.ops, has_state, &OpSpec::kind)) {
      layer.state_bytes = static_cast<size_t>(config.delta.state_size()) * sizeof(float);
    }
    layer.state_begin = all_states;
    all_states = end_of(all_states, layer.state_bytes, 1);
    layer.k_begin = k_bytes;
    layer.v_begin = v_bytes;
    layer.beside_begin = beside_bytes;
    beside_bytes = end_of(beside_bytes, layer.beside_position_bytes, capacity);
    k_bytes = end_of(k_bytes, layer.k_position_bytes, capacity);
    v_bytes = end_of(v_bytes, layer.v_position_bytes, capacity);
    layers_.push_back(layer);
  }
  try {
    k_ = Buffer<std::byte>(memory, k_bytes);
    v_ = Buffer<std::byte>(memory, v_bytes);
    beside_ = Buffer<std::byte>(memory, beside_bytes);
    states_ = Buffer<std::byte>(memory, all_states);
  } catch (const Error& error) {
    throw Error(fmt::format("no memory for the keys and values of {} positions, {} and {} bytes "
                            "({})",
                            capacity, k_bytes, v_bytes, error.what()),
                {}, "use a shorter prompt, a smaller -n, or --kv f16");
  }
}

size_t KvCache::position_bytes() const {
  size_t bytes = 0;
  for (const Layer& layer : layers_) {
    bytes += layer.k_position_bytes + layer.v_position_bytes + layer.beside_position_bytes;
  }
  return bytes;
}

KvView KvCache::layer(int64_t layer) const {
  return {type(layer), k_.data() + of(layer).k_begin, v_.data() + of(layer).v_begin};
}

KvView KvCache::of_other(int64_t layer) const {
  if (of(layer).beside_position_bytes == 0) return this->layer(layer);
  return {KvType::kF32, beside_.data() + of(layer).beside_begin, nullptr};
}

void* KvCache::k_slot(int64_t layer, int64_t position) {
  return k_.data() + of(layer).k_begin + k_bytes(layer, position);
}

float* KvCache::state(int64_t layer) {
  return reinterpret_cast<float*>(states_.data() + of(layer).state_begin);
}

void* KvCache::v_slot(int64_t layer, int64_t position) {
  return v_.data() + of(layer).v_begin + v_bytes(layer, position);
}

void* KvCache::beside_slot(int64_t layer, int64_t position) {
  return beside_.data() + of(layer).beside_begin + beside_bytes(layer, position);
}

void* KvCache::slot_of_other(int64_t layer, int64_t position) {
  return of(layer).beside_position_bytes == 0 ? k_slot(layer, position)
                                              : beside_slot(layer, position);
}

}  // namespace assay
