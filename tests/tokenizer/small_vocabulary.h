#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/byte_unicode.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay::testing_support {

// A vocabulary of a few tokens, made up in a test: bytes first (id = byte), then what is added.
class SmallVocabulary {
 public:
  explicit SmallVocabulary(TokenizerModel model) {
    vocabulary.source = "small.gguf";
    vocabulary.model = model;
    vocabulary.add_space_prefix = model == TokenizerModel::kSentencePiece;
    for (int byte = 0; byte < 256; ++byte) {
      if (model == TokenizerModel::kBytePair) {
        add(byte_letters()[static_cast<size_t>(byte)]);
      } else {
        constexpr char kHex[] = "0123456789ABCDEF";
        add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte);
      }
    }
  }

  int32_t add(std::string text, TokenType type = TokenType::kNormal, float score = 0) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(score);
    return static_cast<int32_t>(vocabulary.tokens.size()) - 1;
  }

  // A byte-pair token together with the merge that makes it.
  int32_t merge(const std::string& left, const std::string& right) {
    vocabulary.merges.push_back(left + " " + right);
    return add(left + right);
  }

  Vocabulary vocabulary;
};

}  // namespace assay::testing_support
