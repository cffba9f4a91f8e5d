#include "kernels/emulated/block_order.h"

namespace assay::emulated {

void BlockOrder::atomic(const Toucher& who) {
  const auto fence = fences_.find({who.block, who.who.thread});
  if (fence != fences_.end()) releases_.push_back({who.block, who.who.thread, fence->second});
  seen_[who.block] = releases_.size();
}

bool BlockOrder::separates(const Toucher& earlier, const Toucher& who) const {
  const auto seen = seen_.find(who.block);
  if (seen == seen_.end()) return false;
  for (size_t i = 0; i < seen->second; ++i) {
    const Release& release = releases_[i];
    if (release.block != earlier.block) continue;
    const bool is_own = release.thread == earlier.who.thread;
    if (earlier.who.barriers < release.barriers + (is_own ? 1 : 0)) return true;
  }
  return false;
}

}  // namespace assay::emulated
