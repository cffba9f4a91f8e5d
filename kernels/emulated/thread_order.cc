#include "kernels/emulated/thread_order.h"

#include <algorithm>

namespace assay::emulated {

void ThreadOrder::begin_block() {
  barriers_ = 0;
  for (Warp& warp : warps_) warp.lanes.clear();
}

void ThreadOrder::pass_barrier() {
  ++barriers_;
  for (Warp& warp : warps_) warp.lanes.clear();
}

void ThreadOrder::pass_warp_sync(unsigned warp, uint32_t mask) {
  if (warps_.size() <= warp) warps_.resize(warp + 1);
  Warp& syncs = warps_[warp];
  ++syncs.count;
  for (SyncedLanes& synced : syncs.lanes) {
    if (synced.mask == mask) {
      synced.last = syncs.count;
      return;
    }
  }
  syncs.lanes.push_back({mask, syncs.count});
}

bool ThreadOrder::have_met(const Accessor& earlier, const Accessor& who) const {
  const auto warp = static_cast<size_t>(who.thread) / kWarpSize;
  if (warp >= warps_.size()) return false;  // that never passed a __syncwarp
  const auto lane = [](const Accessor& a) { return static_cast<unsigned>(a.thread) % kWarpSize; };
  const uint32_t both = 1U << lane(earlier) | 1U << lane(who);
  return std::ranges::any_of(warps_[warp].lanes, [&](const SyncedLanes& synced) {
    return (synced.mask & both) == both && synced.last > earlier.warp_syncs;
  });
}

}  // namespace assay::emulated
