#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

// A stretch of the text that is, so far, one token.
struct Symbol {
  size_t begin = 0;
  size_t size = 0;  // 0: it has become part of the symbol to its left
  int32_t id = -1;  // -1: no token of the vocabulary
  int32_t previous = -1;
  int32_t next = -1;
};

// What two neighbours become.
struct Merge {
  double priority = 0;  // the highest goes first
  int32_t id = -1;      // -1: they do not merge
};

// Merges neighbours, best pair first and of equals the leftmost, until no pair merges: the step
// that sentence-piece and byte-pair vocabularies share. n log n in the number of symbols.
class SymbolMerger {
 public:
  // Links `symbols` in their order and merges them; merge_of(left, right) says what two
  // neighbours become. Symbols of size 0 are left behind.
  template <typename MergeOf>
  void run(std::vector<Symbol>& symbols, const MergeOf& merge_of) {
    const auto n = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < n; ++i) {
      symbols[static_cast<size_t>(i)].previous = i - 1;
      symbols[static_cast<size_t>(i)].next = i + 1 < n ? i + 1 : -1;
    }
    queue_.clear();
    for (int32_t i = 0; i + 1 < n; ++i) offer(symbols, i, i + 1, merge_of);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), has_lower_priority);
      const Pair pair = queue_.back();
      queue_.pop_back();
      Symbol& left = symbols[static_cast<size_t>(pair.left)];
      const Symbol right = symbols[static_cast<size_t>(pair.right)];
      // Out of date if either side has merged with something else since.
      if (left.size == 0 || left.next != pair.right || left.size + right.size != pair.size) {
        continue;
      }
      left.id = pair.id;
      left.size = pair.size;
      left.next = right.next;
      symbols[static_cast<size_t>(pair.right)].size = 0;
      if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = pair.left;
      if (left.previous >= 0) offer(symbols, left.previous, pair.left, merge_of);
      if (left.next >= 0) offer(symbols, pair.left, left.next, merge_of);
    }
  }

 private:
  struct Pair {
    double priority;
    int32_t left, right;
    int32_t id;
    size_t size;
  };

  static bool has_lower_priority(const Pair& a, const Pair& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.left > b.left;
  }

  template <typename MergeOf>
  void offer(const std::vector<Symbol>& symbols, int32_t left, int32_t right,
             const MergeOf& merge_of) {
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(right)];
    const Merge merge = merge_of(a, b);
    if (merge.id < 0) return;
    queue_.push_back({merge.priority, left, right, merge.id, a.size + b.size});
    std::push_heap(queue_.begin(), queue_.end(), has_lower_priority);
  }

  std::vector<Pair> queue_;
};

}  // namespace assay
