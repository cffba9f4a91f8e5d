#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace assay {

// Lists of tokens, each with a number, of which it finds the smallest whose list begins with
// others, or that others begin with: without trying each with each.
class TokenPrefixes {
 public:
  struct Entry {
    std::span<const int64_t> tokens;  // must outlive this
    size_t number = 0;
  };

  explicit TokenPrefixes(std::vector<Entry> entries);

  // The smallest number that is not taken of a list that begins with `tokens`, or that `tokens`
  // begin with; both have at least `min_size`. Takes time with the logarithm of how many lists
  // there are, and with the length of `tokens`.
  std::optional<size_t> first(std::span<const int64_t> tokens, size_t min_size,
                              const std::vector<bool>& taken);

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // Entries with the same tokens; nodes are in lexical order.
  struct Node {
    std::span<const int64_t> tokens;
    size_t parent = kNone;  // the longest other list that these tokens begin with
    size_t next = 0;        // in entries_: the first that may be free
    size_t end = 0;
  };

  // The smallest free number of the node, or kNone.
  size_t free_of(size_t node, const std::vector<bool>& taken);
  size_t free_in(size_t begin, size_t end, const std::vector<bool>& taken);

  std::vector<Entry> entries_;  // by tokens, then number
  std::vector<Node> nodes_;
  // A tree over the nodes' smallest numbers: that of node i is at leaves_ + i, and each inner one's
  // children at 2 i and 2 i + 1.
  std::vector<size_t> smallest_;
  size_t leaves_ = 1;
};

}  // namespace assay
