#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay::emulated {

// Which bytes of an allocation somebody has written.
class WrittenBytes {
 public:
  explicit WrittenBytes(size_t bytes = 0) : bytes_(bytes), words_((bytes + 63) / 64) {}

  // The bytes [first, first + count), all of them in the allocation.
  void mark(size_t first, size_t count) {
    if (all_) return;
    all_ = count == bytes_;
    for_words(words_, first, count, [](uint64_t& word, uint64_t bits) { word |= bits; });
  }
  bool has(size_t first, size_t count) const {
    if (all_) return true;
    bool has_all = true;
    for_words(words_, first, count,
              [&](uint64_t word, uint64_t bits) { has_all = has_all && (word & bits) == bits; });
    return has_all;
  }

 private:
  // Calls visit(word, those of its bits that are asked for).
  template <class Words, class Visit>
  static void for_words(Words& words, size_t first, size_t count, const Visit& visit) {
    for (size_t at = first; at < first + count;) {
      const size_t bit = at % 64;
      const size_t n = first + count - at < 64 - bit ? first + count - at : 64 - bit;
      visit(words[at / 64], (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit);
      at += n;
    }
  }

  size_t bytes_;
  bool all_ = false;
  std::vector<uint64_t> words_;
};

}  // namespace assay::emulated
