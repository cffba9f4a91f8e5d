#pragma once

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
  struct Access {
    Toucher who;
    int line = 0;
    bool is_write = false;
  };

  // Of an allocation of `bytes`, in words of `word_bytes`: the element that kernels write.
  AccessHistory(size_t bytes, size_t word_bytes)
      : word_bytes_(word_bytes), words_((bytes + word_bytes - 1) / word_bytes) {}

  // Of the bytes [first, first + count): an access that nothing orders with this one, or null; then
  // this one is noted.
  const Access* read(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
                     const Place& place) {
    const Access* earlier = nullptr;
    for_words(first, count, [&](Word& word) {
      earlier = conflicts(word.write, who, order) ? &word.write : nullptr;
      if (earlier == nullptr) note(word.reads, {who, place.line, false});
      return earlier == nullptr;
    });
    return earlier;
  }
  const Access* write(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
                      const Place& place) {
    const Access* earlier = nullptr;
    for_words(first, count, [&](Word& word) {
      for (const Access* access : {&word.write, &word.reads[0], &word.reads[1], &word.reads[2]}) {
        if (earlier == nullptr && conflicts(*access, who, order)) earlier = access;
      }
      if (earlier == nullptr) word.write = {who, place.line, true};
      return earlier == nullptr;
    });
    return earlier;
  }
  // Says that somebody `does` what races with `earlier`.
  static std::string describe_race(const char* does, const Access& earlier);

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
  static void note(Reads& reads, const Access& access) {
    const Toucher& first = reads[0].who;
    const Toucher& who = access.who;
    if (first.launch != who.launch ||
        (first.block == who.block && first.who.thread == who.who.thread)) {
      reads[0] = access;
    } else if (first.block == who.block && same_warp(first.who.thread, who.who.thread)) {
      reads[1] = access;
    } else {
      reads[2] = access;
    }
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
