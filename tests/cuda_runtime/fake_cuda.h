#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace assay::testing_support {

// The functions of the CUDA runtime that kernels/cuda/device.cc and staged_copies.cc call, on the
// host, as strict and as late as the real ones may be:
//
// - What is put into a stream is done when somebody waits for it, and not before.
// - Any call can be made to fail.
// - A stream that is captured refuses allocations, waits and kernels that were not loaded before.
// - A block gets no more shared memory than the kernel was allowed, and no more threads than it
// takes.
// - What is given back twice, used after that, or copied out of bounds is kept as a misuse.
class FakeCuda {
 public:
  static FakeCuda& get();

  // What the machine has; to be set before the first call.
  struct Machine {
    int driver = 13000;
    int runtime = 13000;
    int devices = 1;
    int major = 9;
    int multiprocessors = 132;
    int cache_bytes = 50 * 1024 * 1024;
    int most_shared_bytes = 232448;  // of a block, opted in
    size_t memory_bytes = size_t{1} << 30;
    size_t pinned_bytes = size_t{1} << 30;
  };

  // Forgets everything: a process begins.
  void begin(const Machine& machine);

  // The call-th call from the beginning on, counted from 1, returns `error`.
  void fail(size_t call, cudaError_t error) { failing_ = {call, error}; }
  // Waiting for an event returns at once.
  void wait_for_no_event() { waits_for_events_ = false; }

  // The names of the calls so far that can fail.
  const std::vector<std::string>& calls() const { return calls_; }
  // What went wrong that CUDA does not have to report.
  const std::vector<std::string>& misuses() const { return misuses_; }
  cudaError_t last_error() const { return last_error_; }
  // What was taken and not given back; empty if nothing.
  std::string leaks() const;

  // A kernel that can be launched: with so many threads a block, and static shared memory.
  template <class... Parameters>
  void add_kernel(void (*function)(Parameters...), int most_threads, size_t shared_bytes) {
    Kernel& added = kernels_[reinterpret_cast<const void*>(function)];
    added.most_threads = most_threads;
    added.static_bytes = shared_bytes;
    added.bind = [function](void** arguments) -> std::function<void()> {
      return bind(function, arguments, std::index_sequence_for<Parameters...>());
    };
  }

  // The rest is for the functions.

  struct Kernel {
    int most_threads = 0;
    size_t static_bytes = 0;
    size_t dynamic_bytes = size_t{48} * 1024;  // that it was allowed
    bool is_loaded = false;
    // The launch with these arguments, which are copied.
    std::function<std::function<void()>(void** arguments)> bind;
  };
  // Work of a stream; `event` is done with it.
  struct Work {
    std::function<void()> run;
    const void* event = nullptr;
  };
  struct Stream {
    std::list<Work> work;
    bool is_captured = false;
    bool is_capture_broken = false;
    std::vector<std::function<void()>> captured;
  };

  // Counts a call: the error that it is to return, or success.
  cudaError_t enter(const char* name);
  cudaError_t report(cudaError_t error);
  cudaError_t take_last_error() { return std::exchange(last_error_, cudaSuccess); }
  void misuse(const std::string& what) { misuses_.push_back(what); }

  // Does the work of all streams, or that of one up to an event.
  cudaError_t finish(const void* event = nullptr);
  // Of a stream that is captured: the capture is broken, and that is the call's error.
  cudaError_t break_captures();

  void* take(std::map<void*, size_t>& from, size_t bytes);
  bool give_back(std::map<void*, size_t>& to, void* address, const char* what);
  bool holds(const std::map<void*, size_t>& memory, const void* address, size_t bytes) const;

  Machine machine;
  std::map<void*, size_t> device_memory, pinned_memory;
  std::map<const void*, Stream> streams;
  std::set<const void*> events;
  std::map<const void*, std::vector<std::function<void()>>> graphs, executables;
  Kernel* kernel(const void* address);
  const void* make_handle() { return reinterpret_cast<const void*>(++handles_ * 16); }

 private:
  template <class... Parameters, size_t... kIndices>
  static std::function<void()> bind(void (*function)(Parameters...), void** arguments,
                                    std::index_sequence<kIndices...>) {
    return [function,
            values = std::tuple<Parameters...>(*static_cast<Parameters*>(arguments[kIndices])...)] {
      std::apply(function, values);
    };
  }

  std::map<const void*, Kernel> kernels_;
  std::vector<std::string> calls_;
  std::vector<std::string> misuses_;
  std::pair<size_t, cudaError_t> failing_ = {0, cudaSuccess};
  cudaError_t last_error_ = cudaSuccess;
  cudaError_t kernel_error_ = cudaSuccess;  // of a kernel, for all calls from then on
  bool waits_for_events_ = true;
  uintptr_t handles_ = 0;
};

}  // namespace assay::testing_support
