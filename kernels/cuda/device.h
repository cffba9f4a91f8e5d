#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "kernels/arena.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/staged_copies.h"
#include "kernels/fused.h"
#include "kernels/memory.h"

namespace assay::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // dynamic shared memory of each block
};

// One stream of one CUDA device, and the device's memory. A fault of a kernel is told by the next
// call that waits for the stream.
class Device final : public Memory {
 public:
  // The device that CUDA_VISIBLE_DEVICES puts first. Throws Error, with what was found and what to
  // do, if there is none, or its driver or architecture is too old for this build.
  Device();
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  bool on_host() const override { return false; }
  void reserve(std::span<const size_t> sizes) override;
  void* allocate(size_t bytes) override { return arena_.allocate(bytes); }
  // What comes to its place next is written by the stream, and so after the kernels that use it.
  void release(void* address) noexcept override { arena_.release(address); }
  void upload(const void* from, size_t bytes, void* to) override;
  void download(const void* from, size_t bytes, void* to) override;

  // The launches of `steps` as a CUDA graph. Must not outlive the device.
  std::unique_ptr<Recording> record(const std::function<void()>& steps);

  // Puts `kernel` into the stream. Throws Error with the kernel's name if it cannot be launched.
  template <class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    if (shape.shared_bytes > kBytesWithoutOptIn) {
      allow_shared_memory(name, reinterpret_cast<const void*>(kernel), shape.shared_bytes);
    }
    kernel<<<shape.grid, shape.block, shape.shared_bytes, stream_>>>(arguments...);
    check_launch(name);
  }

 private:
  // With that, and what kernels declare beside it, a block stays below the 48 KiB beyond which a
  // device wants to be asked.
  static constexpr size_t kBytesWithoutOptIn = size_t{16} * 1024;

  static void allow_shared_memory(std::string_view name, const void* kernel, size_t bytes);
  void check_launch(std::string_view name);

  cudaStream_t stream_ = nullptr;
  Arena arena_;
  std::unique_ptr<StagedCopies> copies_;
};

}  // namespace assay::cuda
