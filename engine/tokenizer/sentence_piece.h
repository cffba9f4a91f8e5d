#pragma once

#include <array>
#include <optional>

#include "engine/tokenizer/encoder.h"
#include "engine/tokenizer/merge_rules.h"
#include "engine/tokenizer/token_index.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// SentencePiece-style: text starts as single characters, spaces as U+2581, and the neighbours
// whose union has the best score, or of which a merge is first in the list, merge first. What ends
// up as no token becomes byte tokens. Bytes that are not UTF-8 are characters of their own, and so
// become their byte tokens.
class SentencePieceEncoder : public Encoder {
 public:
  // `vocabulary` must outlive the encoder and stay where it is.
  explicit SentencePieceEncoder(const Vocabulary& vocabulary);

  void encode(std::string_view text, bool with_prefix, std::vector<int32_t>& ids) const override;
  std::string decode(std::string_view token_text) const override;

 private:
  Merge merge_by_score(std::string_view text, const Symbol& left, const Symbol& right) const;
  void append_bytes(std::string_view text, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  TokenIndex index_;
  std::optional<MergeRules> rules_;       // vocabulary.by_merges
  size_t longest_token_ = 0;              // bytes
  std::array<int32_t, 256> byte_tokens_;  // -1: the vocabulary has none
};

}  // namespace assay
