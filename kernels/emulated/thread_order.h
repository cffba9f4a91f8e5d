#pragma once

#include <cstdint>
#include <vector>

namespace assay::emulated {

constexpr unsigned kWarpSize = 32;

// A thread of a block at one moment: what decides whether two accesses are ordered.
struct Accessor {
  int thread = 0;
  uint32_t barriers = 0;    // that the block has passed
  uint32_t warp_syncs = 0;  // that the warp has passed
};

inline bool same_warp(int a, int b) {
  return a / static_cast<int>(kWarpSize) == b / static_cast<int>(kWarpSize);
}

// Which threads of the block that runs have met: at a barrier all of them, at a __syncwarp the
// lanes that it names. A shuffle orders no memory accesses.
class ThreadOrder {
 public:
  void begin_block();
  void pass_barrier();
  // The lanes of `mask` of a warp passed a __syncwarp.
  void pass_warp_sync(unsigned warp, uint32_t mask);

  Accessor accessor(unsigned thread) const {
    const unsigned warp = thread / kWarpSize;
    return {static_cast<int>(thread), barriers_, warp < warps_.size() ? warps_[warp].count : 0};
  }

  // Whether the accesses of two threads, or of one, have an order: `earlier` came first, `who` is
  // about to make one.
  bool separates(const Accessor& earlier, const Accessor& who) const {
    return earlier.thread == who.thread || earlier.barriers != who.barriers ||
           (same_warp(earlier.thread, who.thread) && have_met(earlier, who));
  }

 private:
  struct SyncedLanes {
    uint32_t mask;
    uint32_t last;  // number of the warp's last __syncwarp of these lanes
  };
  struct Warp {
    uint32_t count = 0;
    std::vector<SyncedLanes> lanes;
  };

  bool have_met(const Accessor& earlier, const Accessor& who) const;

  uint32_t barriers_ = 0;
  std::vector<Warp> warps_;
};

}  // namespace assay::emulated
