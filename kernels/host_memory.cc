#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/memory.h"

namespace assay {
namespace {

constexpr size_t kAlignment = 64;

// What fills a large page begins at one and has such pages, where the system gives them: a small
// one costs 1.8 us when it is first written to.
constexpr size_t kLargePage = size_t{2} << 20U;

size_t whole_pages(size_t bytes) {
  return bytes / kLargePage * kLargePage;
}

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    void* address = nullptr;
    const size_t alignment = bytes >= kLargePage ? kLargePage : kAlignment;
    if (bytes > PTRDIFF_MAX || posix_memalign(&address, alignment, bytes) != 0) {
      throw Error("no memory for " + std::to_string(bytes) + " bytes", {},
                  "use a smaller --batch, a shorter prompt or a smaller -n");
    }
    if (bytes >= kLargePage) {
      madvise(address, whole_pages(bytes), MADV_HUGEPAGE);
      // A child, such as a log's guard, has no use for it. If it had it, each page that is written
      // to would be copied first, and all processors interrupted.
      madvise(address, whole_pages(bytes), MADV_DONTFORK);
    }
    return address;
  }

  void release(void* address) noexcept override {
    const bool may_be_large = reinterpret_cast<uintptr_t>(address) % kLargePage == 0;
    const size_t bytes = malloc_usable_size(address);
    if (may_be_large && bytes >= kLargePage) {
      madvise(address, whole_pages(bytes), MADV_DOFORK);  // malloc may give it to others
    }
    std::free(address);
  }

  void upload(const void* from, size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(const void* from, size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace assay
