// A vocabulary and a text out of the fuzzer's bytes: whatever they are, tokenising must end, give
// ids of the vocabulary, and lose no byte of the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "engine/tokenizer/byte_unicode.h"
#include "engine/tokenizer/text_stream.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace {

using assay::TokenType;

constexpr std::string_view kSpace = "\xE2\x96\x81";

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view bytes(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

assay::Vocabulary vocabulary_from(Input& input) {
  constexpr const char* kPreTokenizers[] = {
      "gpt-2",  "llama-bpe", "qwen2",   "smollm",      "default",      "qwen35",
      "tekken", "gpt-4o",    "kimi-k2", "deepseek-v3", "deepseek-llm", "deepseek-coder",
      "youtu",  "tiny_aya",  "viking",  "falcon",      "falcon3",      "seed-coder"};
  constexpr TokenType kTypes[] = {TokenType::kNormal, TokenType::kControl, TokenType::kUserDefined,
                                  TokenType::kUnknown};
  const bool byte_pair = (input.byte() & 1) != 0;
  assay::testing_support::SmallVocabulary small(byte_pair ? assay::TokenizerModel::kBytePair
                                                          : assay::TokenizerModel::kSentencePiece);
  small.vocabulary.pre_tokenizer = kPreTokenizers[input.byte() % std::size(kPreTokenizers)];
  small.vocabulary.add_space_prefix = false;
  small.add(std::string(kSpace));
  for (int n_tokens = input.byte() % 32; n_tokens > 0; --n_tokens) {
    const TokenType type = kTypes[input.byte() % 4];
    const std::string text(input.bytes(input.byte() % 8));
    if (byte_pair && type == TokenType::kNormal && text.size() > 1) {
      const size_t cut = 1 + input.byte() % (text.size() - 1);
      small.merge(assay::letters_of_bytes(std::string_view(text).substr(0, cut)),
                  assay::letters_of_bytes(std::string_view(text).substr(cut)));
    } else {
      small.add(text, type, static_cast<float>(input.byte()));
    }
  }
  return small.vocabulary;
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const assay::Vocabulary vocabulary = vocabulary_from(input);
  const assay::Tokenizer tokenizer(vocabulary);
  const std::string_view text = input.rest();
  std::string back;
  assay::TextStream stream(tokenizer);
  for (const int32_t id : tokenizer.encode(text, true)) {
    require(id >= 0 && id < tokenizer.n_tokens());
    back += tokenizer.token_bytes(id);
    stream.put(id);
  }
  stream.flush();
  // Sentence-piece has one symbol for U+2581 and the space: only there a text can change.
  require(back == text || (vocabulary.model == assay::TokenizerModel::kSentencePiece &&
                           text.find(kSpace) != std::string_view::npos));
  return 0;
}
