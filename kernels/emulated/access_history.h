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
  // Of an allocation of `bytes`, in words of `word_bytes`: the element that kernels write.
  AccessHistory(size_t bytes, size_t word_bytes)
      : word_bytes_(word_bytes), words_((bytes + word_bytes - 1) / word_bytes) {}

  // The bytes [first, first + count). These return what is wrong, or nothing.
  std::string read(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
                   const Place& place);
  std::string write(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
                    const Place& place);

 private:
  struct Access {
    Toucher who;
    int line = 0;
  };
  // Of a thread, of another lane of its warp, and of another warp or block.
  using Reads = std::array<Access, 3>;
  struct Word {
    Access write;
    Reads reads;
  };
  struct Race {
    const Access* earlier = nullptr;  // none: no race
    const char* did = "";
  };

  static bool conflicts(const Access& earlier, const Toucher& who, const LaunchOrder& order);
  static void note(Reads& reads, const Access& access);
  Race race(size_t word, const Toucher& who, const LaunchOrder& order, bool with_reads) const;
  // Of the bytes [first, first + count): looks for a race in each word, and keeps the access.
  template <class Keep>
  std::string touch(size_t first, size_t count, const Toucher& who, const LaunchOrder& order,
                    const char* does, bool with_reads, const Keep& keep);

  size_t word_bytes_;
  std::vector<Word> words_;
};

}  // namespace assay::emulated
