#include "kernels/emulated/device.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"

namespace assay::emulated {
namespace {

// What every CUDA device of the architectures that Assay is built for accepts.
void check_shape(std::string_view name, const LaunchShape& shape, unsigned most_threads) {
  const auto count = [](const Dim3& dim) { return uint64_t{dim.x} * dim.y * dim.z; };
  if (count(shape.block) == 0 || count(shape.block) > 1024 || shape.block.z > 64 ||
      count(shape.grid) == 0 || shape.grid.x > 0x7FFFFFFFU || shape.grid.y > 0xFFFFU ||
      shape.grid.z > 0xFFFFU || shape.shared_bytes > kMaxSharedBytes) {
    throw Error(
        fmt::format("kernel {} is launched with a grid of {} x {} x {} blocks of {} x {} x "
                    "{} threads and {} bytes of shared memory, which no device can do",
                    name, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                    shape.block.z, shape.shared_bytes));
  }
  if (count(shape.block) > most_threads) {
    throw Error(
        fmt::format("kernel {} is launched with {} threads a block, more than the {} of its "
                    "launch bounds",
                    name, count(shape.block), most_threads),
        "emulated device", "declare it with ASSAY_KERNEL and as many threads");
  }
}

}  // namespace

// Launches, to be run one after the other each time.
class Device::List final : public Recording {
 public:
  List(Device& device, std::vector<Launch> launches)
      : device_(device), launches_(std::move(launches)) {}
  void replay() override {
    device_.reject_while_recording("a replay");
    ++device_.counts_.replays;
    for (const Launch& launch : launches_) device_.run_now(launch);
  }
  int64_t n_nodes() const override { return std::ssize(launches_); }

 private:
  Device& device_;
  std::vector<Launch> launches_;
};

void Device::reject_while_recording(const char* what) const {
  if (recording_ == nullptr) return;
  throw Error(std::string(what) + " while launches are recorded", "emulated device");
}

void Device::check_access(const char* what, const void* address, size_t bytes) const {
  if (bytes == 0 || memory_.contains(address, bytes)) return;
  throw Error(
      fmt::format("{} of {} bytes is out of bounds, at {}", what, bytes, memory_.describe(address)),
      "emulated device");
}

void* Device::allocate(size_t bytes) {
  reject_while_recording("an allocation");
  return memory_.allocate(bytes);
}

void Device::upload(const void* from, size_t bytes, void* to) {
  reject_while_recording("a copy");
  check_access("a copy", to, bytes);
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  memory_.mark_written(to, bytes);
}

void Device::mark_written(const void* address, size_t bytes) {
  check_access("a result", address, bytes);
  if (bytes > 0) memory_.mark_written(address, bytes);
}

std::map<std::string, KernelCounts> Device::take_instruction_counts() {
  return counter_ == nullptr ? std::map<std::string, KernelCounts>() : counter_->take_kernels();
}

void Device::download(const void* from, size_t bytes, void* to) {
  reject_while_recording("a copy");
  check_access("a copy", from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<Recording> Device::record(const std::function<void()>& steps) {
  reject_while_recording("a recording");
  std::vector<Launch> launches;
  recording_ = &launches;
  try {
    steps();
  } catch (...) {
    recording_ = nullptr;
    throw;
  }
  recording_ = nullptr;
  return std::make_unique<List>(*this, std::move(launches));
}

Device::Device(const Options& options) : options_(options) {
  if (options.counts) counter_ = std::make_unique<InstructionCounter>();
  if (options.has_weak_order) stores_ = std::make_unique<StoreBuffer>();
}

void Device::run(std::string_view name, const LaunchShape& shape, unsigned most_threads,
                 std::function<void()> body) {
  // A kernel with template arguments is launched in parentheses.
  if (name.starts_with('(')) name = name.substr(1, name.size() - 2);
  check_shape(name, shape, most_threads);
  Launch launch{std::string(name), shape, std::move(body)};
  if (recording_ != nullptr) {
    recording_->push_back(std::move(launch));
  } else {
    run_now(launch);
  }
}

void Device::run_now(const Launch& launch) {
  const Dim3& grid = launch.shape.grid;
  const uint64_t n_blocks = uint64_t{grid.x} * grid.y * grid.z;
  ++counts_.launches;
  check_interrupted();
  const uint64_t seed = options_.seed;
  const Watchers watchers = {counter_.get(), stores_.get(), shared_bytes()};
  const Dim3& dim = launch.shape.block;
  if (counter_ != nullptr) counter_->begin_launch(launch.name, size_t{dim.x} * dim.y * dim.z);
  Block block(launch.name, launch.shape, memory_, fibers_, seed, counts_, watchers);
  // A step that has no divisor in common with the number of blocks comes to each of them once.
  uint64_t step = 1 + (seed == 0 ? 0 : seed % n_blocks);
  while (std::gcd(step, n_blocks) != 1) ++step;
  for (uint64_t i = 0, at = seed % n_blocks; i < n_blocks; ++i, at = (at + step) % n_blocks) {
    const auto index = static_cast<unsigned>(at % grid.x);
    const auto rest = static_cast<unsigned>(at / grid.x);
    try {
      block.run({index, rest % grid.y, rest / grid.y}, launch.body);
    } catch (...) {
      fibers_.clear();  // some still wait inside the kernel
      throw;
    }
  }
  if (counter_ != nullptr) counter_->end_launch();
  if (stores_ != nullptr) stores_->drain_all();
  if (const std::string broken = memory_.broken_guard(); !broken.empty()) {
    throw Error(fmt::format("kernel {}: {}", launch.name, broken), "emulated device");
  }
}

}  // namespace assay::emulated
