#include "tests/cuda_runtime/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace assay::testing_support {

FakeCuda& FakeCuda::get() {
  static FakeCuda fake;
  return fake;
}

void FakeCuda::begin(const Machine& its_machine) {
  for (const auto& [address, bytes] : device_memory) std::free(address);
  for (const auto& [address, bytes] : pinned_memory) std::free(address);
  *this = FakeCuda();
  machine = its_machine;
}

std::string FakeCuda::leaks() const {
  std::string text;
  const auto add = [&](const char* what, size_t count) {
    if (count > 0) text += std::to_string(count) + " " + what + ", ";
  };
  add("allocations", device_memory.size());
  add("pinned allocations", pinned_memory.size());
  add("streams", streams.size());
  add("events", events.size());
  add("graphs", graphs.size());
  add("executable graphs", executables.size());
  return text;
}

cudaError_t FakeCuda::enter(const char* name) {
  calls_.emplace_back(name);
  return calls_.size() == failing_.first ? report(failing_.second) : cudaSuccess;
}

cudaError_t FakeCuda::report(cudaError_t error) {
  if (error != cudaSuccess) last_error_ = error;
  return error;
}

cudaError_t FakeCuda::finish(const void* event) {
  if (event != nullptr && !waits_for_events_) return report(kernel_error_);
  for (auto& [handle, stream] : streams) {
    const auto ends = [&](const Work& work) { return work.event == event; };
    if (event != nullptr && std::ranges::none_of(stream.work, ends)) continue;
    bool is_done = false;
    while (!is_done && !stream.work.empty()) {
      const Work work = std::move(stream.work.front());
      stream.work.pop_front();
      is_done = event != nullptr && work.event == event && std::ranges::none_of(stream.work, ends);
      if (!work.run || kernel_error_ != cudaSuccess) continue;
      try {
        work.run();
      } catch (cudaError_t error) {
        kernel_error_ = error;
      }
    }
  }
  return report(kernel_error_);
}

cudaError_t FakeCuda::break_captures() {
  cudaError_t result = cudaSuccess;
  for (auto& [handle, stream] : streams) {
    if (!stream.is_captured) continue;
    stream.is_capture_broken = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return report(result);
}

void* FakeCuda::take(std::map<void*, size_t>& from, size_t bytes) {
  void* const address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(address, 0xFF, std::min<size_t>(bytes, 4096));
  from[address] = bytes;
  return address;
}

bool FakeCuda::give_back(std::map<void*, size_t>& to, void* address, const char* what) {
  if (address == nullptr) return true;
  finish();  // it waits for the device
  if (to.erase(address) == 0) {
    misuse(std::string(what) + " of what was not allocated");
    return false;
  }
  std::free(address);
  return true;
}

bool FakeCuda::holds(const std::map<void*, size_t>& memory, const void* address,
                     size_t bytes) const {
  const auto after = memory.upper_bound(const_cast<void*>(address));
  if (after == memory.begin()) return false;
  const auto& [first, size] = *std::prev(after);
  const auto offset =
      static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(first));
  return offset <= size && bytes <= size - offset;
}

FakeCuda::Kernel* FakeCuda::kernel(const void* address) {
  const auto found = kernels_.find(address);
  return found == kernels_.end() ? nullptr : &found->second;
}

}  // namespace assay::testing_support
