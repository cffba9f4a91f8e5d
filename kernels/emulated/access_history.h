#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/emulated/block_order.h"
#include "kernels/emulated/source_place.h"
#include "kernels/emulated/thread_order.h"

namespace assay::emulated {

// What orders the accesses of the launch that runs.
struct LaunchOrder {
  const ThreadOrder& in_block;
  const BlockOrder& of_blocks;
};

// Who touched the words of an allocation last, to find two threads of one launch that touch a word,
// one of them writing, with nothing that orders them: two blocks without fences and atomic
// operations, two warps of a block with no barrier in between, two lanes of a warp with no
// __syncwarp in between.
class AccessHistory {
 public:
  // Copied member by member from where `who` has long been: put together first, it would be read
  // before it had been written, for which a processor waits.
  struct Access {
    Toucher who;
    int line = 0;
    void set(const Toucher& by, const Place& place) {
      who = by;
      line = place.line;
    }
  };
  // One that races with another, if there is one.
  struct Race {
    const Access* earlier = nullptr;
    bool is_with_write = false;
  };

  // Of an allocation of `bytes`, in words of `word_bytes`: the element that kernels write.
  AccessHistory(size_t bytes, size_t word_bytes)
      : word_bytes_(word_bytes), words_((bytes + word_bytes - 1) / word_bytes) {}

  // Of the bytes [first, first + count): an access that nothing orders with this one; if there is
  // none, this one is noted.
  Race read(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
            const Place& place) {
    Race race;
    for_words(first, count, [&](Word& word) {
      if (conflicts(word.write, who, order)) {
        race = {&word.write, true};
        return false;
      }
      place_for(word.reads, who).set(who, place);
      return true;
    });
    return race;
  }
  Race write(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
             const Place& place) {
    Race race;
    for_words(first, count, [&](Word& word) {
      if (conflicts(word.write, who, order)) race = {&word.write, true};
      for (const Access& access : word.reads) {
        if (race.earlier == nullptr && conflicts(access, who, order)) race = {&access, false};
      }
      if (race.earlier != nullptr) return false;
      word.write.set(who, place);
      return true;
    });
    return race;
  }
  // The last launch that wrote one of these bytes; 0 if none did.
  uint32_t last_writer(size_t first, size_t count) const {
    uint32_t last = 0;
    const size_t end = (first + count + word_bytes_ - 1) / word_bytes_;
    for (size_t i = first / word_bytes_; i < end; ++i) {
      last = std::max(last, words_[i].write.who.launch);
    }
    return last;
  }
  // Says that somebody `does` what races with an earlier access.
  static std::string describe(const char* does, const Race& race);

 private:
  // Of a thread, of another lane of its warp, and of another warp or block.
  using Reads = std::array<Access, 3>;
  struct Word {
    Access write;
    Reads reads;
  };

  static bool conflicts(const Access& earlier, const Toucher& who, const LaunchOrder& order) {
    if (earlier.who.launch != who.launch) return false;
    if (earlier.who.block != who.block) return !order.of_blocks.separates(earlier.who, who);
    return !order.in_block.separates(earlier.who.who, who.who);
  }
  // Where a read by `who` is kept.
  static Access& place_for(Reads& reads, const Toucher& who) {
    const Toucher& first = reads[0].who;
    if (first.launch != who.launch ||
        (first.block == who.block && first.who.thread == who.who.thread)) {
      return reads[0];
    }
    const bool is_of_warp = first.block == who.block && same_warp(first.who.thread, who.who.thread);
    return reads[is_of_warp ? 1 : 2];
  }
  // Visits the words of these bytes while visit() says so.
  template <class Visit>
  void for_words(size_t first, size_t count, const Visit& visit) {
    const size_t end = (first + count + word_bytes_ - 1) / word_bytes_;
    for (size_t i = first / word_bytes_; i < end && visit(words_[i]); ++i) continue;
  }

  size_t word_bytes_;
  std::vector<Word> words_;
};

}  // namespace assay::emulated
