#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/emulated/block.h"
#include "kernels/emulated/device_memory.h"
#include "kernels/fused.h"
#include "kernels/memory.h"

namespace assay::emulated {

// The launch bounds of a kernel: the first parameter of those that have some.
template <unsigned kThreads, unsigned kBlocks>
struct Bounds {};

// Threads that a block of a kernel without launch bounds can have whatever registers it takes: 255
// of each, of the 65,536 of a multiprocessor.
constexpr unsigned kThreadsWithoutBounds = 256;

// A device that computes on the host: the counterpart of kernels/cuda/device.h. A launch is done
// when it returns. Not for several threads of the host at once.
class Device final : public Memory {
 public:
  struct Options {
    uint64_t seed = 0;    // permutes the order in which blocks and threads run; 0: ascending
    bool counts = false;  // instructions, see take_instruction_counts()
    bool has_weak_order = false;  // stores come late to other threads (store_buffer.h)
    bool opts_in = true;          // a block may have more shared memory than kFreeSharedBytes
  };
  explicit Device(const Options& options);
  explicit Device(uint64_t seed = 0) : Device(Options{.seed = seed}) {}

  bool on_host() const override { return false; }
  void reserve(std::span<const size_t> sizes) override { memory_.reserve(sizes); }
  void* allocate(size_t bytes) override;
  void release(void* address) noexcept override { memory_.release(address); }
  void upload(const void* from, size_t bytes, void* to) override;
  void download(const void* from, size_t bytes, void* to) override;

  // Words that kernels may write, and the host read: a launch is done at once.
  int32_t* host_words() {
    if (host_words_ == nullptr) {
      host_words_ = static_cast<int32_t*>(allocate(kChoices * sizeof(int32_t)));
    }
    return host_words_;
  }
  void mark(int32_t /*slot*/) const { reject_while_recording("a mark"); }
  void await(int32_t /*slot*/) const { reject_while_recording("a wait"); }

  // Small, so that blocks come to work more than once.
  template <class Kernel>
  Residency residency(std::string_view /*name*/, Kernel /*kernel*/, unsigned /*threads*/,
                      size_t /*shared_bytes*/) const {
    return {multiprocessors(), 2};
  }

  static unsigned multiprocessors() { return 8; }
  // What a block may have of shared memory, static and dynamic.
  size_t shared_bytes() const { return options_.opts_in ? kMaxSharedBytes : kFreeSharedBytes; }
  // Small, so that what goes by it is done in parts.
  static int64_t cache_bytes() { return 64 * 1024; }

  // What `steps` launches is kept and not done; replaying does it. A copy or an allocation in it is
  // an Error, as on a GPU. The recording must not outlive the device.
  std::unique_ptr<Recording> record(const std::function<void()>& steps);

  // For what uses this memory without a launch. They throw Error, the one within `steps` of
  // record(), the other where the bytes are not of one allocation.
  void reject_while_recording(const char* what) const;
  void check_access(const char* what, const void* address, size_t bytes) const;

  // That these were written otherwise than by a copy or a kernel.
  void mark_written(const void* address, size_t bytes);

  // Since the device was made.
  const EmulatedCounts& counts() const { return counts_; }
  // By kernel, since the last call; nothing unless it counts.
  std::map<std::string, KernelCounts> take_instruction_counts();

  // Runs `kernel` in every thread of the grid. Throws Error for whatever Block finds, if a block
  // has more threads than the kernel allows, and if a guard zone of an allocation was written to.
  template <class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    run(name, shape, kThreadsWithoutBounds, [=] { kernel(arguments...); });
  }
  template <unsigned kThreads, unsigned kBlocks, class... Parameters>
  void launch(std::string_view name, const LaunchShape& shape,
              void (*kernel)(Bounds<kThreads, kBlocks>, Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    run(name, shape, kThreads, [=] { kernel({}, arguments...); });
  }

 private:
  struct Launch {
    std::string name;
    LaunchShape shape;
    std::function<void()> body;
  };
  class List;

  void run(std::string_view name, const LaunchShape& shape, unsigned most_threads,
           std::function<void()> body);
  void run_now(const Launch& launch);

  DeviceMemory memory_;
  Fibers fibers_;
  Options options_;
  int32_t* host_words_ = nullptr;
  std::unique_ptr<InstructionCounter> counter_;
  std::unique_ptr<StoreBuffer> stores_;
  EmulatedCounts counts_;
  std::vector<Launch>* recording_ = nullptr;
};

}  // namespace assay::emulated
