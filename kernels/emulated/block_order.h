#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kernels/emulated/thread_order.h"

namespace assay::emulated {

// A thread of a launch at one moment.
struct Toucher {
  uint32_t launch = 0;
  uint32_t block = 0;
  Accessor who;
};

// Which accesses of one block come before those of another in the same launch: those that a
// __threadfence followed, and after it an atomic operation, once the other block has made an atomic
// operation itself. Which address these have is not looked at.
class BlockOrder {
 public:
  void fence(const Toucher& who) { fences_[{who.block, who.who.thread}] = who.who.barriers; }
  void atomic(const Toucher& who);
  // `earlier` is of another block than `who`.
  bool separates(const Toucher& earlier, const Toucher& who) const;

 private:
  // What the thread had accessed, and what all of its block had before its last barrier.
  struct Release {
    uint32_t block;
    int thread;
    uint32_t barriers;
  };

  std::map<std::pair<uint32_t, int>, uint32_t> fences_;  // block and thread to barriers
  std::vector<Release> releases_;
  std::map<uint32_t, size_t> seen_;  // by block: how many of the releases
};

}  // namespace assay::emulated
