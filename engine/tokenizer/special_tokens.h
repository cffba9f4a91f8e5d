#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/hash_slots.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// A stretch of the input: text, or a token that was found in it.
struct Fragment {
  std::string_view text;
  int32_t token = -1;  // -1: text, to be tokenised
};

// Finds the tokens that are taken from the text as they stand: control, user-defined and unknown.
// Longer tokens go first wherever they occur, then those to the left, as in llama.cpp; or the other
// way round, if the vocabulary says so.
//
// The search is an Aho-Corasick automaton over the reversed tokens, run from the end of the text:
// its state at a byte names all tokens that begin there, longest first. Time is linear in the text
// and does not depend on how many tokens there are.
class SpecialTokens {
 public:
  // Those of `vocabulary.found_last`, or all the others.
  explicit SpecialTokens(const Vocabulary& vocabulary, bool last = false);

  // Cuts `text` into fragments, in order. White space that a token swallows is in none of them.
  std::vector<Fragment> split(std::string_view text) const;

 private:
  struct Node {
    int32_t token = -1;    // whose reversed text ends here
    int32_t length = 0;    // bytes from the root
    int32_t fallback = 0;  // node of the longest proper suffix
    int32_t shorter = 0;   // nearest node along the fallbacks with a token; 0: none
    int32_t parent = 0;
    uint8_t byte = 0;  // of the step from there
  };
  struct Match {
    size_t begin;
    int32_t node;
  };
  struct Taken {
    size_t begin, end;  // with the white space that the token swallows
    int32_t token;
  };

  void insert(std::string_view text, int32_t token);
  void link();
  int32_t child(int32_t node, uint8_t byte) const;
  int32_t step(int32_t node, uint8_t byte) const;
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  std::vector<Match> candidates(std::string_view text) const;
  std::vector<Taken> select(std::string_view text, std::vector<Match> candidates) const;
  std::vector<Taken> select_leftmost(std::string_view text, std::vector<Match> candidates) const;
  size_t end_of_space(std::string_view text, size_t begin, int32_t token) const;

  const Vocabulary& vocabulary_;
  std::vector<Node> nodes_{1};            // 0 is the root
  HashSlots children_{0};                 // by the step that leads to each
  std::array<int32_t, 256> from_root_{};  // the root has most steps, so it has a table
};

}  // namespace assay
