#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/emulated/block_order.h"

namespace assay::emulated {

// Stores to device memory that are on their way, as weakly ordered memory may leave them: a thread
// sees its own, its block sees them after a barrier, other blocks once the thread, or another that
// sees them, has passed a __threadfence, or the launch has ended. For kernels of tests: each load
// looks at every store.
class StoreBuffer {
 public:
  void store(const Toucher& who, void* address, const void* value, size_t bytes);
  // `value`, which is what memory has at `address`, as `who` sees it.
  void load(const Toucher& who, const void* address, void* value, size_t bytes) const;

  // Writes what `who` sees to memory, in the order in which it was stored.
  void drain(const Toucher& who);
  void drain_all();

 private:
  static constexpr size_t kMostBytes = 32;

  struct Store {
    Toucher who;
    unsigned char* address;
    size_t bytes;
    std::array<unsigned char, kMostBytes> value;
  };

  // A block has passed a barrier since, or it is the thread's own.
  static bool sees(const Toucher& who, const Store& store) {
    return store.who.block == who.block &&
           (store.who.who.thread == who.who.thread || store.who.who.barriers < who.who.barriers);
  }

  std::vector<Store> stores_;
};

}  // namespace assay::emulated
