#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary.h"

namespace assay {

// Patterns that a tokenizer.json does not spell: those of its ByteLevel, Digits and Punctuation.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kDigitPattern = R"(\p{N})";
inline constexpr std::string_view kDigitsPattern = R"(\p{N}+)";
inline constexpr std::string_view kPunctuationPattern = R"([\p{P}$+<=>^`|~]+)";
// Digits after ByteLevel, which has written all others as several letters.
inline constexpr std::string_view kDigitLetterPattern = "[0-9]";
inline constexpr std::string_view kDigitLettersPattern = "[0-9]+";
// The one Split that may come after ByteLevel.
inline constexpr std::string_view kThreeDigitsPattern = "[0-9][0-9][0-9]";

// How a byte-pair vocabulary cuts text into words before it merges inside each word.
struct PreTokenizerSpec {
  std::vector<std::string_view> names;     // values of tokenizer.ggml.pre
  std::vector<std::string_view> patterns;  // applied one after the other, each to all pieces
  bool ignores_merges = false;  // a word that is a token is taken whole, whatever the merges say
  bool adds_bos = false;        // unless the file says otherwise
};

// By vocabulary.pre_tokenizer. Throws UnknownTokenizer that lists the supported names for any
// other.
const PreTokenizerSpec& find_pre_tokenizer(const Vocabulary& vocabulary);

// A name of the spec that has these patterns, with line breaks as \r and \n; empty if none has.
std::string_view pre_tokenizer_with(const std::vector<std::string>& patterns);

// Cuts text into words by the patterns of a spec. Whatever no pattern matches is a word as well,
// so the words put together are the text. Bytes that are not UTF-8 are words of their own.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerSpec& spec);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  // In the order of the text. Linear in its length. Threads may share one PreTokenizer.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Patterns;
  std::unique_ptr<const Patterns> patterns_;
};

}  // namespace assay
