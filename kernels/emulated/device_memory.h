#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/arena.h"
#include "kernels/emulated/access_history.h"
#include "kernels/emulated/written_bytes.h"

namespace assay::emulated {

// The memory of the emulated device: host memory that knows what was allocated. A fresh allocation
// holds bytes of all ones, which are NaN as float and -1 as integers, and stands between two guard
// zones that no kernel may write to.
class DeviceMemory {
 public:
  DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Room for allocations of these sizes. Throws Error as allocate() does.
  void reserve(std::span<const size_t> sizes);

  // At a multiple of 256. Throws Error if the host has no such amount.
  void* allocate(size_t bytes);
  // Address of a live allocation; anything else is ignored, for releasing must not throw.
  void release(void* address) noexcept;

  // Whether [address, address + bytes) lies in one live allocation.
  bool contains(const void* address, size_t bytes) const {
    const auto first = reinterpret_cast<uintptr_t>(address);
    return (first >= last_begin_ && first <= last_end_ && bytes <= last_end_ - first) ||
           find(first, bytes);
  }

  // What is known of who touched the allocation that contains() found last; null before a kernel
  // had an address to write to it.
  AccessHistory* history() const { return last_ == nullptr ? nullptr : last_->history.get(); }
  // The same, for a kernel that is about to write elements of `bytes`.
  AccessHistory& history_for_writes(size_t bytes) const;
  // Where in that allocation an address is.
  size_t offset(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - last_begin_;
  }

  // The same: whether all of [address, address + bytes) was written, by a copy or a kernel.
  bool is_written(const void* address, size_t bytes) const {
    return last_->written.has(offset(address), bytes);
  }
  // The same: this is written now.
  void mark_written(const void* address, size_t bytes) const {
    last_->written.mark(offset(address), bytes);
  }
  // Of that allocation, from `address` on.
  size_t left_from(const void* address) const {
    return last_end_ - reinterpret_cast<uintptr_t>(address);
  }

  // What is at an address that no allocation contains: "12 bytes behind the 64 of an allocation".
  std::string describe(const void* address) const;

  // Empty if all guard zones are as they were made; otherwise which one is not.
  std::string broken_guard() const;

 private:
  struct Allocation {
    size_t bytes = 0;
    std::unique_ptr<AccessHistory> history;
    WrittenBytes written;
  };

  bool find(uintptr_t first, size_t bytes) const;

  Arena arena_;
  mutable std::map<uintptr_t, Allocation> allocations_;  // by address
  // The allocation that was asked for last: most accesses come in runs.
  mutable uintptr_t last_begin_ = 1;
  mutable uintptr_t last_end_ = 0;
  mutable Allocation* last_ = nullptr;
};

}  // namespace assay::emulated
