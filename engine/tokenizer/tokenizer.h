#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"
#include "engine/tokenizer/encoder.h"
#include "engine/tokenizer/special_tokens.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// Text to token ids and back, by the vocabulary of a model file. Const calls are safe from several
// threads. Ids are those of llama.cpp for the same file and text, with three exceptions: bytes that
// are not UTF-8 are never replaced, they become byte tokens and come back as they were; names
// like "</s>" are special only where the file says so (llama.cpp decides by the name, and so
// departs from Qwen's own tokenizer, where it is plain text); and words are cut by the patterns of
// the model's own tokenizer, where llama.cpp has others (pre_tokenizer_specs.cc).
class Tokenizer {
 public:
  // Null if the file has no vocabulary (tokenizer.ggml.model is no_vocab or missing). Throws Error,
  // naming file and key, for damaged ones, and UnknownTokenizer for kinds that are not supported;
  // for these, if `unknown` is given, null and why in it. Of a folder, its tokenizer.json.
  static std::unique_ptr<Tokenizer> from_gguf(const Gguf& file, std::string* unknown = nullptr);
  // Likewise, of the model at `path`, of which a folder needs no weights.
  static std::unique_ptr<Tokenizer> from_model(const std::string& path);

  // Throws Error like from_gguf.
  explicit Tokenizer(Vocabulary vocabulary);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Special tokens in the text ("<|im_end|>") become their ids. `add_special`: begin-of-sequence
  // and end-of-sequence tokens are added where the file says so. Time is n log n in the length.
  std::vector<int32_t> encode(std::string_view text, bool add_special) const;

  // The begin-of-sequence token, where the file says that texts have one.
  std::optional<int32_t> added_bos() const;

  // The bytes that a token stands for: of control tokens their name, of padding nothing. They may
  // end inside a character; TextStream joins them. Empty for an id that is not in the vocabulary.
  std::string token_bytes(int32_t id) const;

  // Tokens of the vocabulary; the model's output matrix can have more rows than that.
  int32_t n_tokens() const { return static_cast<int32_t>(vocabulary_.tokens.size()); }

  // True for the end-of-sequence, end-of-turn and end-of-message ids that the file names.
  bool is_end_of_generation(int32_t id) const;

  // False for padding, which a sampler must not choose: ids beyond the vocabulary, tokens of type
  // "unused", and "[PAD<id>]", which converters call by other types.
  bool is_choosable(int32_t id) const;

  // True for tokens that are no part of the text a user sees: control and unknown.
  bool is_control(int32_t id) const;

  // Whether encode() puts a space before the text, which is to be taken off again.
  bool adds_space_prefix() const { return vocabulary_.add_space_prefix; }

 private:
  std::vector<Fragment> fragments(std::string_view text) const;

  Vocabulary vocabulary_;  // without its merges, which the encoder has
  const SpecialTokens special_tokens_, last_special_tokens_;
  const std::unique_ptr<const Encoder> encoder_;
};

}  // namespace assay
