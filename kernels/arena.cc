#include "kernels/arena.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace assay {

Arena::~Arena() {
  for (const auto& [address, bytes] : blocks_) source_.give_back(address);
}

size_t Arena::rounded(size_t bytes) const {
  if (bytes > PTRDIFF_MAX - gap_ - kAlignment) return PTRDIFF_MAX / kAlignment * kAlignment;
  return (bytes + gap_ + kAlignment - 1) / kAlignment * kAlignment;
}

// The smallest free range that is large enough.
Arena::Ranges::iterator Arena::find_free(size_t bytes) {
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    if (best == free_.end() || range->second < best->second) best = range;
  }
  return best;
}

Arena::Ranges::const_iterator Arena::block_of(std::byte* address) const {
  return std::prev(blocks_.upper_bound(address));
}

void Arena::give_back_empty() {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto range = free_.find(block->first);
    if (range == free_.end() || range->second != block->second) {
      ++block;
      continue;
    }
    source_.give_back(block->first);
    free_.erase(range);
    block = blocks_.erase(block);
  }
}

void Arena::add_block(size_t bytes) {
  give_back_empty();
  size_t size = std::max(bytes, kBlockBytes);
  void* block = nullptr;
  try {
    block = source_.take(size);
  } catch (const Error&) {
    if (size == bytes) throw;
    size = bytes;
    block = source_.take(size);
  }
  auto* const address = static_cast<std::byte*>(block);
  blocks_.emplace(address, size);
  free_.emplace(address, size);
}

void Arena::reserve(size_t bytes) {
  bytes = (std::min(bytes, size_t{PTRDIFF_MAX} - kAlignment) + kAlignment - 1) / kAlignment *
          kAlignment;
  if (bytes > 0 && find_free(bytes) == free_.end()) add_block(bytes);
}

void* Arena::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t size = rounded(bytes);
  auto range = find_free(size);
  if (range == free_.end()) {
    add_block(size);
    range = find_free(size);
  }
  const auto [address, available] = *range;
  free_.erase(range);
  if (available > size) free_.emplace(address + size, available - size);
  used_.emplace(address, size);
  return address;
}

void Arena::release(void* piece) noexcept {
  const auto found = used_.find(static_cast<std::byte*>(piece));
  if (found == used_.end()) return;
  auto [address, bytes] = *found;
  used_.erase(found);
  const auto block = block_of(address);
  const auto after = free_.find(address + bytes);
  if (after != free_.end() && after->first < block->first + block->second) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(address);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first >= block->first && before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

}  // namespace assay
