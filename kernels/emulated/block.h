#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/emulated/block_order.h"
#include "kernels/emulated/counts.h"
#include "kernels/emulated/device_memory.h"
#include "kernels/emulated/fiber.h"
#include "kernels/emulated/instruction_counter.h"
#include "kernels/emulated/shared_memory.h"
#include "kernels/emulated/source_place.h"
#include "kernels/emulated/store_buffer.h"
#include "kernels/emulated/thread_order.h"

namespace assay::emulated {

// What a launch asks for.
struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  size_t shared_bytes = 0;    // dynamic shared memory of each block
  bool starts_early = false;  // the kernel calls wait_for_launches()
};

// How many blocks of a kernel find room at once.
struct Residency {
  unsigned multiprocessors;
  unsigned blocks;  // on each
};

// What lanes of a warp do together. Lanes meet only in the same operation.
enum class WarpOperation : uint8_t { kSync, kShuffle, kMultiply };
// What a lane brings to it.
using Contribution = std::array<uint64_t, 2>;

// What a device has beside the checks that are always made; null where it has none.
struct Watchers {
  InstructionCounter* counter = nullptr;
  StoreBuffer* stores = nullptr;
  size_t most_shared_bytes = kMaxSharedBytes;  // of a block
};

// Runs the threads of a block, one block after the other, each thread on a fiber. A thread runs
// until it waits for others; which one continues is decided here, in an order that a seed permutes.
//
// Throws Error, with the kernel, the block, the thread and the line of the source, for a barrier
// that not all threads of the block reach, an operation of a warp that not all named lanes take
// part in, a shuffle from a lane that does not take part, and whatever SharedMemory and
// DeviceMemory find.
class Block {
 public:
  // Takes its fibers from `fibers`, and adds to them. After an Error they must not be used again.
  Block(std::string_view kernel, const LaunchShape& shape, const DeviceMemory& memory,
        Fibers& fibers, uint64_t seed, EmulatedCounts& counts, const Watchers& watchers);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs the block at `index` of the grid: `body` once in each thread.
  void run(const Dim3& index, const std::function<void()>& body);

  // The rest is for the kernel that runs.

  // The block whose thread runs now on this thread of the host.
  static Block& current() { return *current_; }

  const Dim3& grid_dim() const { return shape_.grid; }
  const Dim3& block_dim() const { return shape_.block; }
  const Dim3& block_index() const { return index_; }
  const Dim3& thread_index() const { return threads_[running_].index; }
  unsigned lane() const { return running_ % kWarpSize; }

  void barrier(const Place& place);

  // What the running thread brings to its next meet().
  void contribute(uint64_t first, uint64_t second = 0) {
    Contribution& own = threads_[running_].contribution;
    own[0] = first;
    own[1] = second;
  }
  // Waits until all lanes of `mask` have come to the same operation; then from() gives what each
  // of them contributed.
  void meet(WarpOperation operation, uint32_t mask, const Place& place);
  // What `lane` contributed to the exchange that this thread comes from.
  const Contribution& from(unsigned lane, const Place& place) const {
    if (lane >= kWarpSize || (met() >> lane & 1U) == 0) reject_lane(lane, place);
    return warps_[running_ / kWarpSize].contribution[lane];
  }
  uint32_t met() const { return threads_[running_].mask; }

  // Copies to elements of shared memory, which are there once they have been waited for. The
  // running thread's; close_copies() makes those since the last call a group, and wait_for_copies()
  // finishes all but the last `groups`.
  void begin_copy(SharedMemory::Array& array, int64_t index, const uint8_t* from,
                  const Place& place);
  void close_copies() {
    ++threads_[running_].closed_groups;
    if (watchers_.counter != nullptr) watchers_.counter->close_copies(running_);
  }
  void wait_for_copies(uint32_t groups, const Place& place);

  SharedMemory& shared() { return shared_; }
  // Who reads or writes memory now.
  const Accessor& accessor() const { return toucher_.who; }

  // Throws if [address, address + bytes) is not in one allocation of the device.
  void check(const void* address, size_t bytes, const Place& place) const {
    if (!memory_.contains(address, bytes)) reject_address(address, bytes, place);
  }

  EmulatedCounts& counts() { return counts_; }

  // The running thread's, of a launch that starts early. What came before the launch before it is
  // done when it starts, since every launch waits before it lets the next one start.
  void wait_for_launches() { threads_[running_].has_waited = true; }
  void let_next_launch_start(const Place& place) const {
    check_waited("lets the next launch start", place);
  }

  // As check(); and finds races with what other threads of the launch have touched. Of memory that
  // kernels only read no account is kept: `is_writable` says that this one may write it.
  // `is_written`: it must have been written before.
  void check_read(const void* address, size_t bytes, bool is_writable, bool is_written,
                  const Place& place) const {
    check(address, bytes, place);
    if (is_written && !memory_.is_written(address, bytes)) reject_unwritten(address, bytes, place);
    AccessHistory* history = is_writable ? &memory_.history_for_writes(bytes) : memory_.history();
    if (history == nullptr) return;
    check_settled(*history, address, bytes, place);
    if (watchers_.stores != nullptr) return;
    const auto race = history->read(memory_.offset(address), bytes, toucher_, order(), place);
    if (race.earlier != nullptr) fail(AccessHistory::describe("reads", race), place);
  }
  void check_write(const void* address, size_t bytes, const Place& place) const {
    check(address, bytes, place);
    check_waited("writes", place);
    memory_.mark_written(address, bytes);
    if (watchers_.stores != nullptr) return;
    AccessHistory& history = memory_.history_for_writes(bytes);
    const auto race = history.write(memory_.offset(address), bytes, toucher_, order(), place);
    if (race.earlier != nullptr) fail(AccessHistory::describe("writes", race), place);
  }
  // Bytes of [address, address + bytes) that are in the allocation must have been written.
  void check_written(const void* address, size_t bytes, const Place& place) const {
    const size_t left = memory_.left_from(address);
    bytes = bytes < left ? bytes : left;
    if (!memory_.is_written(address, bytes)) reject_unwritten(address, bytes, place);
  }
  void mark_written(const void* address, size_t bytes) const {
    memory_.mark_written(address, bytes);
  }
  // A copy from there reads what no launch that may still be at work has written.
  void check_copied(const void* address, size_t bytes, const Place& place) const {
    check_written(address, bytes, place);
    const size_t left = memory_.left_from(address);
    const AccessHistory* history = memory_.history();
    if (history != nullptr) check_settled(*history, address, bytes < left ? bytes : left, place);
  }

  // A load or store of the running thread, after its check: of device memory, or wherever
  // range_of() or range() pointed to. `most`: bytes that one instruction moves.
  void count_global(MemoryUse use, const void* address, size_t bytes, size_t most,
                    const Place& place) {
    if (watchers_.counter == nullptr) return;
    watchers_.counter->access(use, running_, reinterpret_cast<uintptr_t>(address), bytes, most,
                              place);
  }
  void count_shared(MemoryUse use, const SharedMemory::Array& array, int64_t index, size_t most,
                    const Place& place);
  void count_load(const void* address, size_t bytes, const Place& place) {
    if (watchers_.counter != nullptr) count_load_anywhere(address, bytes, place);
  }
  bool is_counted() const { return watchers_.counter != nullptr; }
  InstructionCounter& counter() { return *watchers_.counter; }
  unsigned running() const { return running_; }

  // Stores that wait, where there is a buffer of them; otherwise null.
  StoreBuffer* stores() { return watchers_.stores; }
  void fence();
  // Before an atomic operation on `bytes` that somebody has written.
  void begin_atomic(const void* address, size_t bytes, const Place& place);
  const Toucher& toucher() const { return toucher_; }

  [[noreturn]] void fail(const std::string& what, const Place& place) const;

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kExchanging, kDone };

  struct Copy {
    uint32_t group;
    SharedMemory::Array* array;
    int64_t index;
    const uint8_t* from;
  };

  struct Thread {
    Dim3 index;
    State state = State::kReady;
    WarpOperation operation = WarpOperation::kSync;
    uint32_t mask = 0;
    Contribution contribution = {};
    Place place;  // where it waits
    uint32_t closed_groups = 0;
    bool has_waited = true;  // for the launches before this one
    uint32_t n_atomics = 0;
    std::vector<Copy> copies;  // under way, in the order in which they began
  };

  struct Warp {
    Contribution contribution[kWarpSize] = {};
  };

  void check_waited(const char* does, const Place& place) const {
    if (threads_[running_].has_waited) return;
    fail(std::string(does) + " before wait_for_launches(), in a launch that starts early", place);
  }
  void check_settled(const AccessHistory& history, const void* address, size_t bytes,
                     const Place& place) const {
    if (threads_[running_].has_waited) return;
    const uint32_t writer = history.last_writer(memory_.offset(address), bytes);
    if (writer == 0 || writer + 1 < toucher_.launch) return;
    check_waited("reads what the launch before it wrote", place);
  }
  LaunchOrder order() const { return {thread_order_, block_order_}; }
  void count_load_anywhere(const void* address, size_t bytes, const Place& place);
  bool run_ready_threads();
  bool next_ready();
  bool release_exchanges();
  bool release_exchange(unsigned thread);
  bool release_barrier();
  [[noreturn]] void report_stuck();
  void wait(State state, const Place& place);
  bool takes_part(unsigned thread, const Thread& in) const;
  std::string describe(unsigned thread) const;
  [[noreturn]] void fail_in(unsigned thread, const std::string& what, const Place& place) const;
  [[noreturn]] void reject_lane(unsigned lane, const Place& place) const;
  [[noreturn]] void reject_address(const void* address, size_t bytes, const Place& place) const;
  [[noreturn]] void reject_unwritten(const void* address, size_t bytes, const Place& place) const;

  // NOLINTNEXTLINE(readability-identifier-naming): a private member
  static thread_local constinit Block* current_;

  std::string kernel_;
  LaunchShape shape_;
  const DeviceMemory& memory_;
  Fibers& fibers_;
  uint64_t random_;
  EmulatedCounts& counts_;
  Watchers watchers_;
  Dim3 index_{0, 0, 0};
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> order_;
  size_t turn_ = 0;  // place in order_ of the running thread
  unsigned running_ = 0;
  Toucher toucher_;  // the running thread, of this launch and this block of the grid
  ThreadOrder thread_order_;
  BlockOrder block_order_;
  SharedMemory shared_;
  const std::function<void()>* body_ = nullptr;
};

}  // namespace assay::emulated
