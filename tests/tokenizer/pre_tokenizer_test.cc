#include "engine/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <string>

#include "base/error.h"
#include "base/json_file.h"
#include "tests/support/paths.h"

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

// Breaks if a prompt were cut otherwise than by the model's own tokenizer.
TEST(PreTokenizer, CutsAsTheTokenizersPackageDoes) {
  const rapidjson::Document cases = read_json_file(source_path("tests/data/tokenizers/words.json"),
                                                   1 << 20, "run generate.pre_tokenizers again");
  std::set<std::string> names;
  for (const rapidjson::Value& each : cases.GetArray()) {
    const std::string name = json_text_of(each[0]);
    names.insert(name);
    std::vector<size_t> sizes;
    for (const std::string& word : words(name, json_text_of(each[1]))) sizes.push_back(word.size());
    std::vector<size_t> expected;
    for (const rapidjson::Value& size : each[2].GetArray()) expected.push_back(size.GetUint());
    EXPECT_EQ(sizes, expected) << name << ": " << json_text_of(each[1]);
  }
  EXPECT_EQ(names.size(), 22U);
}

TEST(PreTokenizer, FlagsAreThoseOfLlamaCpp) {
  const auto spec = [](const char* name) {
    Vocabulary vocabulary;
    vocabulary.pre_tokenizer = name;
    return find_pre_tokenizer(vocabulary);
  };
  for (const char* name : {"llama-bpe", "tekken", "lfm2", "falcon3", "falcon-h1"}) {
    EXPECT_TRUE(spec(name).ignores_merges && spec(name).adds_bos) << name;
  }
  for (const char* name : {"minicpm5", "youtu", "glm4", "glm5"}) {
    EXPECT_TRUE(spec(name).ignores_merges && !spec(name).adds_bos) << name;
  }
  for (const char* name : {"gpt-4o", "minimax-m2", "deepseek-v3", "command-r", "qwen2",
                           "exaone-moe", "olmo", "dbrx"}) {
    EXPECT_TRUE(!spec(name).ignores_merges && !spec(name).adds_bos) << name;
  }
}

// A run that a pattern looks over from each of its places would take seconds.
TEST(PreTokenizer, LongRunsTakeLinearTime) {
  const rapidjson::Document cases = read_json_file(source_path("tests/data/tokenizers/words.json"),
                                                   1 << 20, "run generate.pre_tokenizers again");
  std::set<std::string> names;
  for (const rapidjson::Value& each : cases.GetArray()) names.insert(json_text_of(each[0]));
  constexpr size_t kRun = 100'000;
  for (const std::string& name : names) {
    for (const char* unit :
         {" ", "\n", "7", "a", "A", "\xE4\xB8\xAD", "\xCC\x81", "!", "aA", "'"}) {
      std::string run;
      while (run.size() < kRun) run += unit;
      for (const char* end : {"", "x", "\xE4\xB8\xAD", "_"}) {
        const auto start = std::chrono::steady_clock::now();
        EXPECT_FALSE(words(name, run + end).empty());
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        EXPECT_LT(seconds.count(), 2.0) << name << ": '" << unit << "'..." << end;
      }
    }
  }
}

TEST(PreTokenizer, NothingIsNoWord) {
  EXPECT_THAT(words("default", ""), ElementsAre());
}

TEST(PreTokenizer, AnUnknownNameListsTheKnownOnes) {
  Vocabulary vocabulary;
  vocabulary.source = "m.gguf";
  vocabulary.pre_tokenizer = "no-such";
  try {
    find_pre_tokenizer(vocabulary);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("m.gguf: key 'tokenizer.ggml.pre'"));
    EXPECT_THAT(error.what(), HasSubstr("'no-such'"));
    EXPECT_THAT(error.what(), HasSubstr("gpt-2, phi-2, olmo"));
  }
}

}  // namespace
}  // namespace assay
