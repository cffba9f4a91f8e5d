#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "engine/tokenizer/hash_slots.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// From text to id, of normal tokens and `merged_too`: text does not become the others, which are
// found in it before (SpecialTokens) or stand for single bytes. The lowest id of a text that occurs
// twice; empty tokens are left out.
class TokenIndex {
 public:
  // `vocabulary` must outlive the index, and its tokens stay as they are.
  explicit TokenIndex(const Vocabulary& vocabulary);

  // -1 if no normal token has this text.
  int32_t find(std::string_view text) const;

  // As find(); a text that no token has gets a number after those of the tokens.
  int32_t intern(std::string text);

 private:
  std::string_view text_of(int32_t id) const;

  const Vocabulary& vocabulary_;
  HashSlots slots_;
  std::deque<std::string> more_;
};

}  // namespace assay
