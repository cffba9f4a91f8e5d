#include "assay/compare/token_prefixes.h"

#include <algorithm>
#include <utility>

namespace assay {
namespace {

using TokenSpan = std::span<const int64_t>;

bool begins_with(TokenSpan tokens, TokenSpan prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

bool is_before(TokenSpan a, TokenSpan b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

TokenPrefixes::TokenPrefixes(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    if (is_before(a.tokens, b.tokens)) return true;
    return !is_before(b.tokens, a.tokens) && a.number < b.number;
  });
  for (size_t i = 0; i < entries_.size(); ++i) {
    const TokenSpan tokens = entries_[i].tokens;
    if (nodes_.empty() || !std::ranges::equal(nodes_.back().tokens, tokens)) {
      size_t parent = nodes_.empty() ? kNone : nodes_.size() - 1;
      while (parent != kNone && !begins_with(tokens, nodes_[parent].tokens)) {
        parent = nodes_[parent].parent;
      }
      nodes_.push_back({tokens, parent, i, i});
    }
    nodes_.back().end = i + 1;
  }
  while (leaves_ < nodes_.size()) leaves_ *= 2;
  smallest_.assign(2 * leaves_, kNone);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    smallest_[leaves_ + i] = entries_[nodes_[i].next].number;
  }
  for (size_t i = leaves_ - 1; i > 0; --i) {
    smallest_[i] = std::min(smallest_[2 * i], smallest_[2 * i + 1]);
  }
}

size_t TokenPrefixes::free_of(size_t node, const std::vector<bool>& taken) {
  Node& at = nodes_[node];
  const size_t before = at.next;
  while (at.next < at.end && taken[entries_[at.next].number]) ++at.next;
  const size_t number = at.next < at.end ? entries_[at.next].number : kNone;
  if (at.next == before) return number;
  size_t place = leaves_ + node;
  smallest_[place] = number;
  for (place /= 2; place > 0; place /= 2) {
    smallest_[place] = std::min(smallest_[2 * place], smallest_[2 * place + 1]);
  }
  return number;
}

size_t TokenPrefixes::free_in(size_t begin, size_t end, const std::vector<bool>& taken) {
  for (;;) {
    size_t least = 0;  // the place in the tree of the smallest number of the range
    for (size_t low = begin + leaves_, high = end + leaves_; low < high; low /= 2, high /= 2) {
      for (const bool odd_low : {true, false}) {
        if ((odd_low ? low : high) % 2 == 0) continue;
        const size_t place = odd_low ? low++ : --high;
        if (least == 0 || smallest_[place] < smallest_[least]) least = place;
      }
    }
    if (least == 0 || smallest_[least] == kNone) return kNone;
    const size_t number = smallest_[least];
    while (least < leaves_) least = smallest_[2 * least] == number ? 2 * least : 2 * least + 1;
    if (free_of(least - leaves_, taken) == number) return number;
  }
}

std::optional<size_t> TokenPrefixes::first(TokenSpan tokens, size_t min_size,
                                           const std::vector<bool>& taken) {
  if (tokens.size() < min_size) return std::nullopt;
  // Those that begin with the tokens follow each other.
  const auto begin = std::partition_point(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return is_before(node.tokens, tokens);
  });
  const auto end = std::partition_point(
      begin, nodes_.end(), [&](const Node& node) { return begins_with(node.tokens, tokens); });
  const auto place = static_cast<size_t>(begin - nodes_.begin());
  size_t number = free_in(place, static_cast<size_t>(end - nodes_.begin()), taken);
  if (place == 0) return number == kNone ? std::nullopt : std::optional(number);
  // Those that the tokens begin with are among those that the list before begins with.
  size_t node = place - 1;
  const TokenSpan before = nodes_[node].tokens;
  const auto other = std::ranges::mismatch(before, tokens).in1;
  const auto n_common = static_cast<size_t>(other - before.begin());
  while (node != kNone && nodes_[node].tokens.size() > n_common) node = nodes_[node].parent;
  for (; node != kNone && nodes_[node].tokens.size() >= min_size; node = nodes_[node].parent) {
    number = std::min(number, free_of(node, taken));
  }
  return number == kNone ? std::nullopt : std::optional(number);
}

}  // namespace assay
