#include "kernels/emulated/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"

namespace assay::emulated {
namespace {

constexpr size_t kGuardBytes = 256;  // more than the stride of a wild loop over floats in a warp
constexpr unsigned char kGuard = 0xA7;
constexpr unsigned char kPoison = 0xFF;

unsigned char* bytes_at(uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a device address is a number, as CUDA's is
  return reinterpret_cast<unsigned char*>(address);
}

bool intact(const unsigned char* guard) {
  return std::all_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte == kGuard; });
}

Arena::Source host_blocks() {
  constexpr std::align_val_t kAlignment{Arena::kAlignment};
  const auto take = [=](size_t bytes) {
    void* block = bytes > PTRDIFF_MAX ? nullptr : operator new(bytes, kAlignment, std::nothrow);
    if (block == nullptr) {
      throw Error(fmt::format("no memory for {} bytes", bytes), "emulated device",
                  "use a smaller --batch, a shorter prompt or a smaller -n");
    }
    return block;
  };
  return {take, [=](void* block) { operator delete(block, kAlignment); }};
}

}  // namespace

DeviceMemory::DeviceMemory() : arena_(host_blocks()) {}

void DeviceMemory::reserve(std::span<const size_t> sizes) {
  size_t total = 0;
  for (const size_t size : sizes) total += arena_.rounded(size + 2 * kGuardBytes);
  arena_.reserve(total);
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t with_guards =
      bytes > PTRDIFF_MAX - 2 * kGuardBytes ? bytes : bytes + 2 * kGuardBytes;
  auto* piece = static_cast<unsigned char*>(arena_.allocate(with_guards));
  unsigned char* data = piece + kGuardBytes;
  std::memset(piece, kGuard, kGuardBytes);
  std::memset(data, kPoison, bytes);
  std::memset(data + bytes, kGuard, kGuardBytes);
  allocations_[reinterpret_cast<uintptr_t>(data)] = {bytes, nullptr, WrittenBytes(bytes)};
  return data;
}

void DeviceMemory::release(void* address) noexcept {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end()) return;
  arena_.release(bytes_at(found->first) - kGuardBytes);
  allocations_.erase(found);
  last_begin_ = 1;
  last_end_ = 0;
  last_ = nullptr;
}

AccessHistory& DeviceMemory::history_for_writes(size_t bytes) const {
  if (last_->history == nullptr) {
    last_->history = std::make_unique<AccessHistory>(last_->bytes, std::min<size_t>(bytes, 4));
  }
  return *last_->history;
}

bool DeviceMemory::find(uintptr_t first, size_t bytes) const {
  const auto after = allocations_.upper_bound(first);
  if (after == allocations_.begin()) return false;
  auto& [begin, allocation] = *std::prev(after);
  const size_t size = allocation.bytes;
  if (first - begin > size || bytes > size - (first - begin)) return false;
  last_begin_ = begin;
  last_end_ = begin + size;
  last_ = &allocation;
  return true;
}

std::string DeviceMemory::describe(const void* address) const {
  if (address == nullptr) return "the null address";
  const auto first = reinterpret_cast<uintptr_t>(address);
  const auto after = allocations_.upper_bound(first);
  if (after != allocations_.begin()) {
    const auto& [begin, allocation] = *std::prev(after);
    const size_t size = allocation.bytes;
    const uintptr_t offset = first - begin;
    if (offset < size) return fmt::format("byte {} of an allocation of {}", offset, size);
    if (after == allocations_.end() || offset - size < after->first - first) {
      return fmt::format("{} bytes behind the end of an allocation of {}", offset - size, size);
    }
  }
  if (after == allocations_.end()) return "no allocation";
  return fmt::format("{} bytes before an allocation of {}", after->first - first,
                     after->second.bytes);
}

std::string DeviceMemory::broken_guard() const {
  for (const auto& [begin, allocation] : allocations_) {
    const size_t size = allocation.bytes;
    if (!intact(bytes_at(begin) - kGuardBytes)) {
      return fmt::format("the guard zone before an allocation of {} bytes was written to", size);
    }
    if (!intact(bytes_at(begin) + size)) {
      return fmt::format("the guard zone behind an allocation of {} bytes was written to", size);
    }
  }
  return {};
}

}  // namespace assay::emulated
