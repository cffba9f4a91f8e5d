#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/emulated/source_place.h"

namespace assay::emulated {

// A thread of a launch at one moment.
struct Toucher {
  uint32_t launch = 0;
  uint32_t block = 0;
  uint32_t thread = 0;
  uint32_t barriers = 0;  // that its block has passed
};

// Who touched the words of an allocation last, to find two threads of one launch that touch a word,
// one of them writing, with nothing that orders them: two blocks, or two warps of a block with no
// barrier in between. (Lanes of a warp are let pass: they may be ordered by what they exchange.)
class AccessHistory {
 public:
  // Of an allocation of `bytes`, in words of `word_bytes`: the element that kernels write.
  AccessHistory(size_t bytes, size_t word_bytes)
      : word_bytes_(word_bytes), words_((bytes + word_bytes - 1) / word_bytes) {}

  // The bytes [first, first + count). These return what is wrong, or nothing.
  std::string read(size_t first, size_t count, const Toucher& who, const Place& place);
  std::string write(size_t first, size_t count, const Toucher& who, const Place& place);

 private:
  struct Access {
    Toucher who;
    int line = 0;
  };
  using Pair = std::array<Access, 2>;  // of different blocks or warps
  struct Word {
    Access write;
    Pair reads;
  };
  struct Race {
    const Access* earlier = nullptr;  // none: no race
    const char* did = "";
  };

  static bool conflicts(const Access& earlier, const Toucher& who);
  static void note(Pair& pair, const Access& access);
  Race race(size_t word, const Toucher& who, bool with_reads) const;
  // Of the bytes [first, first + count): looks for a race in each word, and keeps the access.
  template <class Keep>
  std::string touch(size_t first, size_t count, const Toucher& who, const char* does,
                    bool with_reads, const Keep& keep);

  size_t word_bytes_;
  std::vector<Word> words_;
};

}  // namespace assay::emulated
