#include "engine/tokenizer/special_tokens.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>

namespace assay {
namespace {

// Bytes of the white space that `text` begins with: of ASCII, or of Unicode.
size_t space_length(std::string_view text, bool unicode) {
  if (text.starts_with(' ') || (!text.empty() && text[0] >= '\t' && text[0] <= '\r')) return 1;
  if (!unicode) return 0;
  for (const std::string_view two : {"\u0085", "\u00A0"}) {
    if (text.starts_with(two)) return 2;
  }
  if (text.starts_with("\u1680") || text.starts_with("\u205F") || text.starts_with("\u3000")) {
    return 3;
  }
  if (text.size() < 3 || !text.starts_with("\xE2\x80")) return 0;
  const auto last = static_cast<uint8_t>(text[2]);  // U+2000 to U+200A, U+2028, U+2029, U+202F
  return last <= 0x8A || last == 0xA8 || last == 0xA9 || last == 0xAF ? 3 : 0;
}

uint64_t edge(int32_t node, uint8_t byte) {
  return static_cast<uint64_t>(node) << 8 | byte;
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary, bool last) : vocabulary_(vocabulary) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const bool found_last = std::ranges::binary_search(vocabulary.found_last, id);
    if (is_special(vocabulary.types[i]) && found_last == last) insert(vocabulary.tokens[i], id);
  }
  link();
}

void SpecialTokens::insert(std::string_view text, int32_t token) {
  if (text.empty()) return;
  int32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    const auto byte = static_cast<uint8_t>(text[i]);
    int32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({.length = at(node).length + 1, .parent = node, .byte = byte});
      if (node == 0) from_root_[byte] = next;
      children_.add(edge(node, byte), next);
    }
    node = next;
  }
  Node& last = nodes_[static_cast<size_t>(node)];
  if (last.token < 0) last.token = token;  // of two alike the lower id
}

// Nodes in the order of their depth, so that what a fallback needs is there before it.
void SpecialTokens::link() {
  std::vector<int32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [this](int32_t a, int32_t b) { return at(a).length < at(b).length; });
  for (const int32_t place : order) {
    Node& node = nodes_[static_cast<size_t>(place)];
    if (node.parent == 0) continue;  // falls back to the root
    node.fallback = step(at(node.parent).fallback, node.byte);
    node.shorter = at(node.fallback).token >= 0 ? node.fallback : at(node.fallback).shorter;
  }
}

// 0 if there is none: no edge leads to the root.
int32_t SpecialTokens::child(int32_t node, uint8_t byte) const {
  if (node == 0) return from_root_[byte];
  const int32_t found = children_.find(edge(node, byte), [&](int32_t place) {
    return at(place).parent == node && at(place).byte == byte;
  });
  return std::max(found, 0);
}

int32_t SpecialTokens::step(int32_t node, uint8_t byte) const {
  while (true) {
    const int32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = at(node).fallback;
  }
}

// The longest token that begins at each byte where one does.
std::vector<SpecialTokens::Match> SpecialTokens::candidates(std::string_view text) const {
  std::vector<Match> matches;
  int32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    node = step(node, static_cast<uint8_t>(text[i]));
    const int32_t longest = at(node).token >= 0 ? node : at(node).shorter;
    if (longest != 0) matches.push_back({i, longest});
  }
  return matches;
}

// Where the white space ends that the token swallows to its right.
size_t SpecialTokens::end_of_space(std::string_view text, size_t begin, int32_t token) const {
  const bool unicode = std::ranges::binary_search(vocabulary_.strips_right, token);
  // Of Phi-3's tokens only these three leave the white space to their right alone.
  const std::string& name = vocabulary_.text(token);
  const bool phi3 = vocabulary_.strip_after_special && name != "<unk>" && name != "<s>" &&
                    name != "<|endoftext|>";
  size_t end = begin;
  while (unicode || phi3) {
    const size_t length = space_length(text.substr(end), unicode);
    if (length == 0) break;
    end += length;
  }
  return end;
}

std::vector<SpecialTokens::Taken> SpecialTokens::select_leftmost(
    std::string_view text, std::vector<Match> candidates) const {
  std::vector<Taken> selected;
  size_t done = 0;
  for (size_t i = candidates.size(); i-- > 0;) {  // they are in the order from the end
    const auto [begin, node] = candidates[i];
    if (begin < done) continue;
    const int32_t token = at(node).token;
    done = end_of_space(text, begin + static_cast<size_t>(at(node).length), token);
    selected.push_back({begin, done, token});
  }
  return selected;
}

// Those of the candidates, and of the shorter tokens that begin where they do, that stand; in the
// order of the text.
std::vector<SpecialTokens::Taken> SpecialTokens::select(std::string_view text,
                                                        std::vector<Match> candidates) const {
  const auto length_of = [this](int32_t node) { return static_cast<size_t>(at(node).length); };
  const auto has_lower_priority = [&](const Match& a, const Match& b) {
    return length_of(a.node) != length_of(b.node) ? length_of(a.node) < length_of(b.node)
                                                  : a.begin > b.begin;
  };
  std::priority_queue<Match, std::vector<Match>, decltype(has_lower_priority)> queue(
      has_lower_priority, std::move(candidates));
  std::vector<bool> taken(text.size());
  std::vector<Taken> selected;
  while (!queue.empty()) {
    Match match = queue.top();
    queue.pop();
    if (taken[match.begin]) continue;
    // What was taken before is at least as long as this match, so it cannot lie inside it: the
    // two ends tell. If the right end is taken, a shorter token may still fit, in its own turn.
    const int32_t longest = match.node;
    while (match.node != 0 && taken[match.begin + length_of(match.node) - 1]) {
      match.node = at(match.node).shorter;
    }
    if (match.node == 0) continue;
    if (match.node != longest) {
      queue.push(match);
      continue;
    }
    const int32_t token = at(match.node).token;
    const size_t size = match.begin + length_of(match.node);
    size_t end = size;
    const size_t swallowed = end_of_space(text, size, token);
    while (end < swallowed && !taken[end]) ++end;
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(match.begin),
              taken.begin() + static_cast<std::ptrdiff_t>(end), true);
    selected.push_back({match.begin, end, token});
  }
  std::sort(selected.begin(), selected.end(),
            [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  return selected;
}

std::vector<Fragment> SpecialTokens::split(std::string_view text) const {
  std::vector<Fragment> fragments;
  size_t done = 0;
  const std::vector<Taken> all = vocabulary_.leftmost_special
                                     ? select_leftmost(text, candidates(text))
                                     : select(text, candidates(text));
  for (const Taken& taken : all) {
    if (taken.begin > done) fragments.push_back({text.substr(done, taken.begin - done)});
    fragments.push_back({{}, taken.token});
    done = taken.end;
  }
  if (done < text.size()) fragments.push_back({text.substr(done)});
  return fragments;
}

}  // namespace assay
