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
#include "kernels/cuda/handles.h"
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
  void* allocate(size_t bytes) override;
  // What comes to its place next is written by the stream, and so after the kernels that use it.
  void release(void* address) noexcept override { arena_.release(address); }
  void upload(const void* from, size_t bytes, void* to) override;
  void download(const void* from, size_t bytes, void* to) override;

  // Words of the host that kernels may write; and FusedKernels' mark() and await().
  int32_t* host_words() const { return static_cast<int32_t*>(host_words_.get()); }
  void mark(int32_t slot);
  void await(int32_t slot);

  template <class Kernel>
  Residency residency(std::string_view name, Kernel* kernel, unsigned threads,
                      size_t shared_bytes) {
    return residency_of(name, reinterpret_cast<const void*>(kernel), threads, shared_bytes);
  }

  unsigned multiprocessors() const { return static_cast<unsigned>(multiprocessors_); }
  // What a block may have of shared memory, static and dynamic.
  size_t shared_bytes() const { return static_cast<size_t>(most_shared_bytes_); }
  // Of the second-level cache.
  int64_t cache_bytes() const { return cache_bytes_; }

  // The launches of `steps` as a CUDA graph, which must not outlive the device. `steps` may launch
  // kernels and nothing else: it is called twice, the first time to load those that are new, which
  // a capture must not do. A copy or an allocation in it is an Error: the graph would repeat the
  // copy from memory that holds something else by then.
  std::unique_ptr<Recording> record(const std::function<void()>& steps);

  // Throws Error within `steps` of record().
  void reject_while_recording(const char* what) const;
  cudaStream_t stream() const { return stream_.get(); }

  // Puts `kernel` into the stream. Throws Error with the kernel's name if it cannot be launched.
  template <class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    void* addresses[] = {&arguments..., nullptr};
    enqueue(name, shape, reinterpret_cast<const void*>(kernel), addresses);
  }

 private:
  void enqueue(std::string_view name, const LaunchShape& shape, const void* kernel,
               void** arguments);
  // Loads a kernel before its first launch, and lets its blocks have as much shared memory as the
  // device has for one.
  void load(std::string_view name, const void* kernel);
  Residency residency_of(std::string_view name, const void* kernel, unsigned threads,
                         size_t shared_bytes);

  Stream stream_;
  std::array<Event, kChoices> marks_;
  PinnedMemory host_words_;  // [kChoices]
  int multiprocessors_ = 0;
  int cache_bytes_ = 0;
  bool can_start_early_ = false;  // a launch, before the one before it has ended
  int most_shared_bytes_ = 0;     // of a block
  std::set<const void*> loaded_;
  std::map<std::pair<const void*, size_t>, unsigned> resident_;  // by kernel and shared memory
  bool is_recording_ = false;
  bool only_loads_ = false;
  Arena arena_;
  std::unique_ptr<StagedCopies> copies_;
};

}  // namespace assay::cuda
