#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Text without special tokens to ids and back: what differs between the kinds of vocabulary.
// Both directions are safe to call from several threads.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text` to `ids`, with the vocabulary's space before it if `with_prefix`.
  // Throws Error if the text cannot be written in the vocabulary.
  virtual void encode(std::string_view text, bool with_prefix, std::vector<int32_t>& ids) const = 0;

  // The bytes that a normal token's text in the vocabulary stands for.
  virtual std::string decode(std::string_view token_text) const = 0;
};

}  // namespace assay
