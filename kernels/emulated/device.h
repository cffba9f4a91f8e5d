#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

#include "kernels/emulated/block.h"
#include "kernels/emulated/device_memory.h"
#include "kernels/memory.h"

namespace assay::emulated {

// A device that computes on the host: the counterpart of kernels/cuda/device.h. A launch is done
// when it returns. Not for several threads of the host at once.
class Device final : public Memory {
 public:
  // `seed` permutes the order in which blocks and threads run; 0: ascending.
  explicit Device(uint64_t seed = 0) : seed_(seed) {}

  bool on_host() const override { return false; }
  void* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(void* address) noexcept override { memory_.release(address); }
  void upload(const void* from, size_t bytes, void* to) override;
  void download(const void* from, size_t bytes, void* to) override;

  // Since the device was made.
  const EmulatedCounts& counts() const { return counts_; }

  // Runs `kernel` in every thread of the grid. Throws Error for whatever Block finds, and if a
  // guard zone of an allocation was written to.
  template <class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    run(name, shape, [=] { kernel(arguments...); });
  }

 private:
  void run(std::string_view name, const LaunchShape& shape, const std::function<void()>& body);

  DeviceMemory memory_;
  Fibers fibers_;
  uint64_t seed_;
  EmulatedCounts counts_;
};

}  // namespace assay::emulated
