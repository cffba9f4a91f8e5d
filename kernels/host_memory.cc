#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "base/address_sanitizer.h"
#include "base/error.h"
#include "kernels/memory.h"

namespace assay {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLargePage = size_t{2} << 20U;

// Pieces of this size and more share large pages, where the system gives them: 512 small pages
// cost four times as much when they are first written to.
constexpr size_t kWorthLargePages = size_t{64} << 10U;

// With the address sanitizer, which finds what is written beyond a piece, each stands by itself.
#if defined(ASSAY_ADDRESS_SANITIZER)
constexpr bool kShares = false;
#else
constexpr bool kShares = true;
#endif

size_t rounded_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Large pages, of which pieces are taken. Only pages that are written to take memory.
class Region {
 public:
  explicit Region(size_t bytes) : bytes_(rounded_up(bytes, kLargePage)) {
    mapped_bytes_ = bytes_ + kLargePage;
    mapped_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(mapped_);
    begin_ = static_cast<std::byte*>(mapped_) + (rounded_up(address, kLargePage) - address);
    // A child, such as a log's guard, has no use for it. If it had it, each page that is written
    // to would be copied first, and all processors interrupted.
    madvise(mapped_, mapped_bytes_, MADV_DONTFORK);
  }
  ~Region() {
    if (is_here()) munmap(mapped_, mapped_bytes_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // In the process that mapped it.
  bool is_here() const { return process_ == getpid(); }
  size_t bytes() const { return bytes_; }
  bool is_empty() const { return pieces_.empty(); }
  bool contains(const void* address) const {
    return address >= begin_ && address < begin_ + bytes_;
  }

  // The first gap that is long enough; null without one.
  void* take(size_t bytes) {
    size_t at = 0;
    for (const auto& [first, end] : pieces_) {
      if (first - at >= bytes) break;
      at = end;
    }
    if (bytes_ - at < bytes) return nullptr;
    const size_t end = rounded_up(at + bytes, kAlignment);
    pieces_[at] = end;
    use_large_pages(rounded_up(end - std::min(end, kLargePage * 3 / 4), kLargePage));
    return begin_ + at;
  }
  void give_back(const void* address) {
    pieces_.erase(static_cast<size_t>(static_cast<const std::byte*>(address) - begin_));
  }

 private:
  // Of those that pieces fill by three quarters: the rest of the last one takes memory for nothing.
  void use_large_pages(size_t end) {
    if (end <= large_) return;
    madvise(begin_ + large_, end - large_, MADV_HUGEPAGE);
    large_ = end;
  }

  size_t bytes_;
  size_t large_ = 0;
  size_t mapped_bytes_;
  void* mapped_;
  std::byte* begin_;
  pid_t process_ = getpid();
  std::map<size_t, size_t> pieces_;  // where each begins and ends
};

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    void* address = nullptr;
    if (bytes <= PTRDIFF_MAX - 2 * kLargePage) {
      if (kShares && bytes >= kWorthLargePages) address = take(bytes);
      if (address == nullptr) {
        address = std::aligned_alloc(kAlignment, rounded_up(bytes, kAlignment));
      }
    }
    if (address == nullptr) {
      throw Error("no memory for " + std::to_string(bytes) + " bytes", {},
                  "use a smaller --batch, a shorter prompt or a smaller -n");
    }
    return address;
  }

  void release(void* address) noexcept override {
    const std::lock_guard lock(mutex_);
    // A parent's region that is not here may have left its place to one that is.
    for (const bool here : {true, false}) {
      for (auto region = regions_.begin(); region != regions_.end(); ++region) {
        if (region->is_here() != here || !region->contains(address)) continue;
        region->give_back(address);
        if (region->is_empty() && !keeps_empty(*region)) regions_.erase(region);
        return;
      }
    }
    std::free(address);
  }

  void upload(const void* from, size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(const void* from, size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

 private:
  // Null if there is no room for a region.
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    try {
      for (Region& region : regions_) {
        void* const address = region.is_here() ? region.take(bytes) : nullptr;
        if (address != nullptr) return address;
      }
      return regions_.emplace_back(std::max(bytes, kRegion)).take(bytes);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  // The first one is kept for pieces to come, if it is not too large for that: its pages are there.
  bool keeps_empty(const Region& region) const {
    return region.is_here() && region.bytes() == kRegion && &region == &regions_.front();
  }

  static constexpr size_t kRegion = 32 * kLargePage;

  std::mutex mutex_;
  std::list<Region> regions_;
};

}  // namespace

Memory& host_memory() {
  static HostMemory& memory = *new HostMemory;  // never destroyed: static objects may have pieces
  return memory;
}

}  // namespace assay
