#include "kernels/emulated/store_buffer.h"

#include <algorithm>

#include "base/error.h"

namespace assay::emulated {

void StoreBuffer::store(const Toucher& who, void* address, const void* value, size_t bytes) {
  if (bytes > kMostBytes) throw Error("a store of more than 32 bytes", "emulated device");
  Store& store = stores_.emplace_back(Store{who, static_cast<unsigned char*>(address), bytes, {}});
  std::memcpy(store.value.data(), value, bytes);
}

void StoreBuffer::load(const Toucher& who, const void* address, void* value, size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(address);
  for (const Store& store : stores_) {
    if (!sees(who, store)) continue;
    const auto stored = reinterpret_cast<uintptr_t>(store.address);
    for (size_t i = 0; i < bytes; ++i) {
      const size_t at = first + i - stored;  // huge where the store begins behind it
      if (at < store.bytes) static_cast<unsigned char*>(value)[i] = store.value[at];
    }
  }
}

void StoreBuffer::drain(const Toucher& who) {
  std::erase_if(stores_, [&](const Store& store) {
    if (!sees(who, store)) return false;
    std::memcpy(store.address, store.value.data(), store.bytes);
    return true;
  });
}

void StoreBuffer::drain_all() {
  for (const Store& store : stores_) std::memcpy(store.address, store.value.data(), store.bytes);
  stores_.clear();
}

}  // namespace assay::emulated
