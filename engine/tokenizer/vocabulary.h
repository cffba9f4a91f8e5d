#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/gguf.h"

namespace assay {

// A vocabulary that asks for what Assay does not have.
class UnknownTokenizer : public Error {
 public:
  using Error::Error;
};

// The kinds of tokenizer.ggml.token_type, with the numbers of the file.
enum class TokenType : int8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // <s>, <|im_end|>: found in text, not part of the output
  kUserDefined = 4,  // found in text before anything else is, part of the output
  kUnused = 5,       // padding
  kByte = 6,         // <0x0A>
};

enum class TokenizerModel {
  kSentencePiece,  // tokenizer.ggml.model = llama
  kBytePair,       // tokenizer.ggml.model = gpt2
};

// What a model file says about its tokens (tokenizer.ggml.*).
struct Vocabulary {
  std::string source;  // the file, for messages
  TokenizerModel model = TokenizerModel::kSentencePiece;
  std::string pre_tokenizer = "default";
  std::vector<std::string> tokens;
  std::vector<TokenType> types;  // one a token
  std::vector<float> scores;     // one a token; sentence-piece: the higher merges first
  // "left right", the first of the list merges first: of byte-pair vocabularies, and of
  // sentence-piece ones that have merges in place of scores.
  std::vector<std::string> merges;
  bool by_merges = false;              // sentence-piece: see above
  std::optional<bool> ignores_merges;  // byte-pair; otherwise as the pre-tokenizer has it
  std::optional<int32_t> bos, eos, eot, eom, unknown;
  std::vector<int32_t> ends;  // further ids that end a text
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;      // sentence-piece: text begins with a space that is not there
  bool prefix_at_start_only = false;  // and not after special tokens
  bool prefix_unless_space = false;   // and not before a space
  // Phi-3: special tokens swallow the white space to their right.
  bool strip_after_special = false;
  // Of the tokens of a tokenizer.json, in ascending order: further ones that do; those that text
  // is merged into as well, being in the model's vocabulary; those that are found only in what all
  // others leave of a text.
  std::vector<int32_t> strips_right, merged_too, found_last;
  // Of special tokens that overlap, the one that begins first counts, as in the tokenizers package;
  // else the longest.
  bool leftmost_special = false;

  bool contains(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < tokens.size(); }
  TokenType type(int32_t id) const { return types[static_cast<size_t>(id)]; }
  const std::string& text(int32_t id) const { return tokens[static_cast<size_t>(id)]; }
};

// Whether tokens of this type are found in a text before anything else is.
bool is_special(TokenType type);

// Empty if the file has no vocabulary (tokenizer.ggml.model is no_vocab or missing). Throws Error,
// naming file and key, for values that are wrong, UnknownTokenizer for another model or
// pre-tokenizer than Assay has.
std::optional<Vocabulary> load_vocabulary(const Gguf& file);

// Throws Error, naming the key at fault, unless the lengths agree, every id is in range, scores
// are finite, and merges and byte tokens are well formed. load_vocabulary has done it already.
void check_vocabulary(const Vocabulary& vocabulary);

// The byte that a token like "<0x0A>" stands for; empty if the text has another form.
std::optional<uint8_t> byte_of_token(std::string_view text);

}  // namespace assay
