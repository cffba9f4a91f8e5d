#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/emulated/instruction_counts.h"
#include "kernels/emulated/source_place.h"
#include "kernels/emulated/thread_order.h"

namespace assay::emulated {

enum class MemoryUse : uint8_t {
  kSharedRead,
  kSharedWrite,
  kGlobalRead,
  kGlobalWrite,
  kGlobalCopy,  // to shared memory
};

inline bool is_shared(MemoryUse use) {
  return use == MemoryUse::kSharedRead || use == MemoryUse::kSharedWrite;
}

// Puts the accesses of single threads together to the instructions of warps, and counts what these
// ask of memory. The lanes of a warp make one instruction of what they do in the same line, between
// the same barriers and operations of the warp, each for the nth time.
class InstructionCounter {
 public:
  void begin_launch(std::string_view kernel, size_t n_threads);
  void end_launch();
  void end_block();

  // An access of `bytes` at `address`, in device memory or, as an offset, in the block's shared
  // memory, which no instruction makes in pieces of more than `most` bytes.
  void access(MemoryUse use, unsigned thread, uint64_t address, size_t bytes, size_t most,
              const Place& place);

  // A copy to shared memory began, the copies since the last call became a group, and all but the
  // last `groups` are waited for.
  void begin_copy(unsigned thread, size_t bytes) { threads_[thread].copies.back() += bytes; }
  void close_copies(unsigned thread) { threads_[thread].copies.push_back(0); }
  void wait_for_copies(unsigned thread, uint32_t groups);

  // The thread comes to an operation of its warp, or the block to a barrier.
  void meet(unsigned thread);
  void pass_barrier();

  // The thread enters a loop of which so many turns are written out (kAllTurns: all), and leaves
  // it.
  static constexpr uint32_t kAllTurns = 1U << 16U;
  void enter_loop(unsigned thread, uint32_t turns);
  void leave_loop(unsigned thread) { threads_[thread].loops.pop_back(); }

  std::map<std::string, KernelCounts> take_kernels() { return std::exchange(kernels_, {}); }

 private:
  // What a thread has asked for since it last had to wait, by line.
  struct Asked {
    uint64_t wait = 0;  // the number of the wait that comes after it
    uint32_t loop = 0;
    uint64_t times = 0;
  };
  struct Occurrences {
    uint64_t part = 0;  // of the thread's way, between two meetings
    uint32_t count = 0;
  };
  struct Loop {
    uint32_t number;
    uint32_t turns;
  };
  struct Thread {
    uint64_t part = 0;
    std::vector<Occurrences> occurrences;  // by line
    std::vector<Asked> asked;              // by line
    std::vector<Loop> loops;
    uint32_t n_loops = 0;
    std::vector<size_t> copies;  // bytes of the groups under way, and of the one that is open
    size_t asked_bytes = 0;
    uint64_t n_waits = 0;
    uint64_t waited_bytes = 0;
  };
  struct Instruction {
    uint32_t line = 0;
    uint32_t bytes = 0;
    uint32_t mask = 0;
    std::array<uint64_t, kWarpSize> address = {};
  };
  struct Warp {
    std::unordered_map<uint64_t, Instruction> instructions;
  };
  struct Line {
    Place place;
    MemoryUse use;
  };

  uint32_t line_of(const Place& place, MemoryUse use);
  void access_piece(uint32_t line, unsigned thread, uint64_t address, uint32_t bytes);
  void ask(uint32_t line, Thread& thread, size_t bytes);
  void wait(Thread& thread, size_t copied_bytes);
  void finish_instructions();
  void count(const Instruction& instruction);
  LineCounts& counts_of(uint32_t line);

  std::map<std::string, KernelCounts> kernels_;
  KernelCounts* kernel_ = nullptr;  // whose launch runs
  uint64_t longest_chain_ = 0;      // of the launch
  std::vector<Line> lines_;
  std::map<std::tuple<const char*, int, MemoryUse>, uint32_t> line_numbers_;
  std::vector<LineCounts*> counts_;  // by line, of the launch's kernel
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
};

}  // namespace assay::emulated
