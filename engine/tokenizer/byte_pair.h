#pragma once

#include <array>
#include <string>

#include "engine/tokenizer/encoder.h"
#include "engine/tokenizer/merge_rules.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/token_index.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// Byte-pair: text is cut into words, each word starts as single bytes, and the neighbours that
// come first in the list of merges merge first. A byte for which the vocabulary has no token is
// left out, as the models' own tokenizers and llama.cpp do (SmolLM2 lacks some control characters).
class BytePairEncoder : public Encoder {
 public:
  // `vocabulary` must outlive the encoder and stay where it is; its merges are needed no longer
  // afterwards. Throws Error for a pre-tokenizer that is not supported.
  explicit BytePairEncoder(const Vocabulary& vocabulary);

  void encode(std::string_view text, bool with_prefix, std::vector<int32_t>& ids) const override;
  std::string decode(std::string_view token_text) const override;

 private:
  struct Workspace {
    std::vector<Symbol> symbols;
    SymbolMerger merger;
  };

  bool is_token(int32_t symbol) const { return vocabulary_.contains(symbol); }
  void encode_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  const PreTokenizerSpec& spec_;
  PreTokenizer pre_tokenizer_;
  // Symbols are the tokens and, numbered after them, the texts that occur only on the way to one.
  TokenIndex symbols_;
  std::array<int32_t, 256> byte_symbols_;
  const MergeRules rules_;
};

}  // namespace assay
