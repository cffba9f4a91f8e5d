#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/arena.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/staged_copies.h"
#include "kernels/fused.h"
#include "kernels/memory.h"

namespace assay::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;    // dynamic shared memory of each block
  bool starts_early = false;  // the kernel calls wait_for_launches()
};

// How many blocks of a kernel find room at once.
struct Residency {
  unsigned multiprocessors;
  unsigned blocks;  // on each
};

// One stream of one CUDA device, and the device's memory. A fault of a kernel is reported by the
// next call that waits for the stream.
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

  // Words of the host that kernels may write; and FusedKernels' mark() and await().
  int32_t* host_words() const { return host_words_; }
  void mark(int32_t slot) {
    ASSAY_CUDA_CHECK(cudaEventRecord(marks_.at(static_cast<size_t>(slot)), stream_));
  }
  void await(int32_t slot) {
    ASSAY_CUDA_CHECK(cudaEventSynchronize(marks_.at(static_cast<size_t>(slot))));
  }

  // The launches of `steps` as a CUDA graph, which must not outlive the device. `steps` may launch
  // kernels and nothing else: it is called twice, the first time to load those that are new, which
  // a capture must not do.
  std::unique_ptr<Recording> record(const std::function<void()>& steps);

  // Throws Error within `steps` of record().
  void reject_while_recording(const char* what) const;
  cudaStream_t stream() const { return stream_; }

  // Puts `kernel` into the stream. Throws Error with the kernel's name if it cannot be launched.
  template <class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    load(name, reinterpret_cast<const void*>(kernel));
    if (only_loads_) return;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream_;
    config.attrs = &early;
    config.numAttrs = shape.starts_early && can_start_early_ ? 1 : 0;
    check_launch(name, cudaLaunchKernelEx(&config, kernel, arguments...));
  }

  template <class... Parameters>
  Residency residency(std::string_view name, void (*kernel)(Parameters...), unsigned threads,
                      size_t shared_bytes) {
    return residency(name, reinterpret_cast<const void*>(kernel), threads, shared_bytes);
  }

 private:
  // Loads a kernel before its first launch, and lets its blocks have as much shared memory as the
  // device has for one.
  void load(std::string_view name, const void* kernel);
  void check_launch(std::string_view name, cudaError_t result);
  Residency residency(std::string_view name, const void* kernel, unsigned threads,
                      size_t shared_bytes);

  cudaStream_t stream_ = nullptr;
  int32_t* host_words_ = nullptr;  // [kChoices]
  std::array<cudaEvent_t, kChoices> marks_ = {};
  int multiprocessors_ = 0;
  bool can_start_early_ = false;  // a launch, before the one before it has ended
  int most_shared_bytes_ = 0;     // of a block
  std::set<const void*> loaded_;
  std::map<std::pair<const void*, size_t>, unsigned> resident_;  // by kernel and shared memory
  bool only_loads_ = false;
  Arena arena_;
  std::unique_ptr<StagedCopies> copies_;
};

}  // namespace assay::cuda
