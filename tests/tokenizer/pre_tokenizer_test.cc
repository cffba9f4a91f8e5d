#include "engine/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(const std::string& name, std::string_view text) {
  Vocabulary vocabulary;
  vocabulary.pre_tokenizer = name;
  const PreTokenizer pre_tokenizer(find_pre_tokenizer(vocabulary));
  std::vector<std::string> out;
  for (const std::string_view word : pre_tokenizer.split(text)) out.emplace_back(word);
  return out;
}

TEST(PreTokenizer, Gpt2KeepsTheSpaceBeforeAWord) {
  EXPECT_THAT(words("gpt-2", "I've 2000  cats!\n"),
              ElementsAre("I", "'ve", " 2000", " ", " cats", "!", "\n"));
}

TEST(PreTokenizer, Llama3TakesUpToThreeDigits) {
  EXPECT_THAT(words("llama-bpe", "YOU'RE 12345 (ok)\r\n\n x"),
              ElementsAre("YOU", "'RE", " ", "123", "45", " (", "ok", ")\r\n\n", " x"));
}

TEST(PreTokenizer, GlmCutsAsLlama3AndAddsNoBos) {
  Vocabulary vocabulary;
  for (const char* name : {"glm4", "chatglm-bpe"}) {
    vocabulary.pre_tokenizer = name;
    const PreTokenizerSpec& spec = find_pre_tokenizer(vocabulary);
    EXPECT_THAT(words(name, "12345 (ok)\r\n x"),
                ElementsAre("123", "45", " (", "ok", ")\r\n", " x"));
    EXPECT_EQ(spec.ignores_merges, vocabulary.pre_tokenizer == "glm4");
    EXPECT_FALSE(spec.adds_bos);
  }
}

TEST(PreTokenizer, Qwen2TakesSingleDigits) {
  EXPECT_THAT(words("qwen2", "a12 b"), ElementsAre("a", "1", "2", " b"));
}

TEST(PreTokenizer, SmollmTakesDigitsOutOfWordsFirst) {
  EXPECT_THAT(words("smollm", "in 42x"), ElementsAre("in", " ", "4", "2", "x"));
}

TEST(PreTokenizer, DefaultCutsPunctuationAndThreeDigits) {
  EXPECT_THAT(words("default", "a+b 12345"), ElementsAre("a", "+", "b", " ", "123", "45"));
}

// White space is what Unicode says, not what a C library or PCRE2's \s says.
TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  EXPECT_THAT(words("gpt-2", "a\xE3\x80\x80\xC2\x85z"),
              ElementsAre("a", "\xE3\x80\x80", "\xC2\x85", "z"));
  EXPECT_THAT(words("gpt-2", "\xE1\xA0\x8E!"), ElementsAre("\xE1\xA0\x8E!"))
      << "U+180E is not a space";
}

TEST(PreTokenizer, BytesThatAreNotUtf8AreKeptAsWordsOfTheirOwn) {
  EXPECT_THAT(words("gpt-2",
                    "ab\xFF\xE2\x82"
                    "cd\xC3"),
              ElementsAre("ab", "\xFF\xE2\x82", "cd", "\xC3"));
}

TEST(PreTokenizer, NothingIsNoWord) {
  EXPECT_THAT(words("default", ""), ElementsAre());
}

TEST(PreTokenizer, AnUnknownNameListsTheKnownOnes) {
  Vocabulary vocabulary;
  vocabulary.source = "m.gguf";
  vocabulary.pre_tokenizer = "tekken";
  try {
    find_pre_tokenizer(vocabulary);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("m.gguf: key 'tokenizer.ggml.pre'"));
    EXPECT_THAT(error.what(), HasSubstr("'tekken'"));
    EXPECT_THAT(error.what(), HasSubstr("gpt-2, phi-2, llama-bpe"));
  }
}

}  // namespace
}  // namespace assay
