#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace assay {

struct TextStreamOptions {
  // The tokens begin a text: the space that the tokenizer put before it is taken off. Leave it
  // out for tokens that continue a prompt, whose first word may well begin with a space.
  bool at_start_of_text = false;
  // Control tokens appear by name ("<s>"); else they are left out.
  bool show_control_tokens = false;
};

// Token ids to text, as they come. Gives out whole UTF-8 characters only: the bytes of one that is
// not complete wait for the next token. Bytes that can never become one are given as U+FFFD.
class TextStream {
 public:
  // `tokenizer` must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer, TextStreamOptions options = {});

  // The text that can be shown now that `id` is there; often empty.
  std::string put(int32_t id);

  // The end: what still waits, as U+FFFD.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  TextStreamOptions options_;
  bool drop_space_;
  std::string pending_;  // at most the first 3 bytes of a character
};

// The text of a whole sequence.
std::string decode(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                   TextStreamOptions options);

}  // namespace assay
