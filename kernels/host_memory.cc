#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "base/error.h"
#include "kernels/memory.h"

namespace assay {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostMemory final : public Memory {
 public:
  bool on_host() const override { return true; }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    void* address = bytes > PTRDIFF_MAX ? nullptr : operator new(bytes, kAlignment, std::nothrow);
    if (address == nullptr) {
      throw Error("no memory for " + std::to_string(bytes) + " bytes", {},
                  "use a smaller --batch, a shorter prompt or a smaller -n");
    }
    return address;
  }

  void release(void* address) noexcept override { operator delete(address, kAlignment); }

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
