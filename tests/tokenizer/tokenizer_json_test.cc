// tokenizer.json of Hugging Face folders, against ids that the `tokenizers` package gave
// (golden/generate/tokenizer_vectors.py), and damaged or unknown ones.
#include "engine/hf/tokenizer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/tokenizer/text_stream.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/hf_builder.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::HfFolder;
using testing_support::llama;
using testing_support::llama_config;

const std::string kFolder = source_path("tests/data/tokenizers/");

class TokenizerKind : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerKind,
                         testing::Values("gpt2", "llama3", "llama3-merges", "qwen2", "smollm",
                                         "llama2", "phi3", "metaspace-first", "metaspace-always",
                                         "metaspace-never", "gemma", "gemma-spaces"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

// A prompt, or what is generated, would mean something else to Assay than to the model.
TEST_P(TokenizerKind, GivesTheIdsOfTheTokenizersPackage) {
  const auto tokenizer = Tokenizer::from_model(kFolder + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const rapidjson::Document pairs =
      read_json_file(kFolder + GetParam() + "/ids.json", 1 << 20, "make it again");
  ASSERT_GT(pairs.Size(), 20U);
  for (const rapidjson::Value& pair : pairs.GetArray()) {
    const std::string text = json_text_of(pair[0]);
    std::vector<int32_t> want;
    for (const rapidjson::Value& id : pair[1].GetArray()) want.push_back(id.GetInt());
    EXPECT_EQ(tokenizer->encode(text, true), want) << text;
    EXPECT_EQ(decode(*tokenizer, want, {.at_start_of_text = true}), json_text_of(pair[2])) << text;
  }
}

// A file of a few tokens, to be changed.
constexpr char kSmall[] =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
    R"("added_tokens":[{"id":3,"content":"<s>","special":true}]})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Hostile {
  std::string from;
  std::string to;
  std::string message;
};

class TokenizerJson : public HfFolder {
 protected:
  void expect_refused(const Hostile& hostile) const {
    put("tokenizer.json", replaced(kSmall, hostile.from, hostile.to));
    EXPECT_THAT([&] { read_tokenizer_json(folder_); },
                ThrowsMessage<Error>(AllOf(HasSubstr("tokenizer.json"), HasSubstr(hostile.message),
                                           testing::Not(HasSubstr("\n")))))
        << hostile.to;
  }
};

// Ids beyond the vocabulary, tokens that overwrite each other, merges of nothing.
TEST_F(TokenizerJson, RejectsDamagedFiles) {
  const std::string vocab = R"({"a":0,"b":1,"ab":2})";
  for (
      const Hostile& hostile : std::vector<Hostile>{
          {R"({"model")", R"({"mode")", "key 'model' is missing"},
          {vocab, "[]", "key 'vocab' is not an object"},
          {vocab, R"({"a":0,"b":1,"ab":-2})", "gives 'ab' something else than an id"},
          {vocab, R"({"a":0,"b":1,"ab":1.5})", "gives 'ab' something else than an id"},
          {vocab, R"({"a":0,"b":1,"ab":4294967296})", "gives 'ab' something else than an id"},
          {vocab, R"({"a":0,"b":1,"ab":2000000000})", "has 4 tokens with ids up to 2000000000"},
          {vocab, R"({"a":0,"b":1,"ab":1})", "has id 1 twice, for 'b' and 'ab'"},
          {vocab, R"({"a":0,"b":1,"ab":2,"a":5})", "has 'a' twice, with the ids 0 and 5"},
          {R"("id":3)", R"("id":1)", "has id 1 twice, for 'b' and '<s>'"},
          {R"("id":3)", R"("id":"3")", "gives '<s>' something else than an id"},
          {R"("content":"<s>")", R"("content":"")", "has one without text or id"},
          {R"(["a b"])", R"(["a c"])", "has 'c' at index 0, which is no token"},
          {R"(["a b"])", R"(["b a"])", "has 'ba' at index 0, which is no token"},
          {R"(["a b"])", R"([["a","b"],["a"]])", "something else than two parts at index 1"},
          {R"(["a b"])", R"([["a b","b"]])", "something else than two parts at index 0"},
          {R"(["a b"])", R"(["a  b"])", "something else than two parts at index 0"},
          {R"(["a b"])", R"([7])", "something else than two parts at index 0"},
          {R"(["a b"])", R"("a b")", "key 'merges' is not an array"},
          {R"("merges")", R"("unk_token":"?","merges")", "key 'unk_token' is no token"},
          {R"("added_tokens":[)", R"("added_tokens":3,"x":[)", "'added_tokens' is not an array"},
          {R"({"type":"ByteLevel")", R"({"type":7)", "key 'type' is not a string"},
          {R"("pre_tokenizer":{"type":"ByteLevel")", R"("pre_tokenizer":{"type":"Sequence")",
           "key 'pretokenizers' is not an array"},
          {R"("added_tokens")",
           R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
           R"({"Sequence":{}}],"special_tokens":{"<s>":{"ids":[9]}}},"added_tokens")",
           "adds id 9, which no token has"},
          {R"("added_tokens")",
           R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},)"
           R"({"Sequence":{}}],"special_tokens":{}},"added_tokens")",
           "has no single id for '<s>'"},
      }) {
    expect_refused(hostile);
  }
}

// What is not one of ours would give other ids than the model was trained with.
TEST_F(TokenizerJson, NamesWhatItDoesNotHave) {
  const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false})";
  for (const Hostile& hostile : std::vector<Hostile>{
           {R"("BPE")", R"("Unigram")", "type 'Unigram' is not one that Assay has"},
           {R"("merges")", R"("dropout":0.1,"merges")", "dropout"},
           {R"("merges")", R"("end_of_word_suffix":"</w>","merges")", "end_of_word_suffix"},
           {byte_level, R"({"type":"Whitespace"})", "Whitespace is not one that Assay has"},
           {byte_level, "null", "a normalizer that leaves spaces as they are"},
           {byte_level, R"({"type":"ByteLevel"})", "ByteLevel with add_prefix_space"},
           {byte_level,
            R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\w+"},)"
            R"("behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,)"
            R"("use_regex":false}]})",
            R"(the patterns \w+ are not ones that Assay has)"},
           {byte_level, R"({"type":"Metaspace","replacement":"▁","split":true})",
            "Metaspace with split"},
           {R"("pre_tokenizer":)" + byte_level,
            R"("normalizer":{"type":"Prepend","prepend":"▁"},)"
            R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","split":false})",
            "Metaspace is not one that Assay has"},
           {byte_level, R"({"type":"Metaspace","replacement":"▁","split":false})",
            "without byte_fallback and its 256 tokens"},
           {R"("pre_tokenizer")", R"("normalizer":{"type":"Lowercase"},"pre_tokenizer")",
            "Lowercase is not one that Assay has"},
           {R"("pre_tokenizer")", R"("post_processor":{"type":"BertProcessing"},"pre_tokenizer")",
            "BertProcessing is not one that Assay has"},
           {R"("special":true)", R"("lstrip":true)", "'<s>' with lstrip is not one that Assay has"},
       }) {
    Hostile with_hint = hostile;
    expect_refused(with_hint);
    with_hint.message = "give the prompt as ids with --tokens";
    expect_refused(with_hint);
  }
}

constexpr char kPlainBytes[] = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
constexpr char kCuttingBytes[] = R"({"type":"ByteLevel","add_prefix_space":false})";

std::string sequence(const std::vector<std::string>& steps) {
  return fmt::format(R"({{"type":"Sequence","pretokenizers":[{}]}})", fmt::join(steps, ","));
}

std::string split_step(const std::string& pattern, const std::string& how) {
  return fmt::format(R"({{"type":"Split","pattern":{{"Regex":"{}"}},{}}})", pattern, how);
}

const std::string kIsolated = R"("behavior":"Isolated","invert":false)";

// Breaks if a published tokenizer were refused, or read as another.
TEST_F(TokenizerJson, KnowsTheStepsOfPublishedFiles) {
  const std::string han =
      "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80"
      "\xEA\xB0\x80-\xED\x9F\xBF]+";
  const std::string digits = R"({"type":"Digits","individual_digits":true})";
  const std::string punctuation = R"({"type":"Punctuation","behavior":"Contiguous"})";
  const std::string qwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)"
                            R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {sequence({split_step(qwen2, kIsolated), kPlainBytes}), "qwen2"},
      {sequence({split_step(qwen2, R"("behavior":"Removed","invert":true)"), kPlainBytes}),
       "qwen2"},
      {sequence({split_step("[\\r\\n]", kIsolated), split_step(R"(\\s?\\p{L}+)", kIsolated),
                 split_step(R"(\\s?\\p{P}+)", kIsolated), split_step(han, kIsolated), digits,
                 kPlainBytes}),
       "deepseek-coder"},
      {sequence({punctuation, kCuttingBytes, digits}), "falcon3"},
      {sequence({punctuation, kCuttingBytes, R"({"type":"Digits","individual_digits":false})",
                 split_step("[0-9][0-9][0-9]", kIsolated)}),
       "falcon"},
  };
  for (const auto& [steps, name] : cases) {
    put("tokenizer.json", replaced(kSmall, kCuttingBytes, steps));
    EXPECT_EQ(read_tokenizer_json(folder_)->pre_tokenizer, name) << steps;
  }
}

TEST_F(TokenizerJson, StepsInAnotherOrderOrFormAreRefused) {
  const std::string digits = R"({"type":"Digits","individual_digits":true})";
  for (const Hostile& hostile : std::vector<Hostile>{
           {kCuttingBytes, sequence({kCuttingBytes, digits}), "the patterns"},
           {kCuttingBytes, sequence({kPlainBytes, split_step(R"(\\p{N}{1,3})", kIsolated)}),
            "Split"},
           {kCuttingBytes, sequence({digits, kPlainBytes}), "the patterns \\p{N} are not ones"},
           {kCuttingBytes, sequence({kCuttingBytes, kCuttingBytes}), "ByteLevel twice"},
           {kCuttingBytes, kPlainBytes, "ByteLevel without a pattern"},
           {kCuttingBytes,
            sequence(
                {split_step(R"(\\p{N})", R"("behavior":"Removed","invert":true)"), kCuttingBytes}),
            "keeps other pieces"},
           {kCuttingBytes,
            sequence({R"({"type":"Punctuation","behavior":"Isolated"})", kCuttingBytes, digits}),
            "Punctuation is not one"},
       }) {
    expect_refused(hostile);
  }
}

// Falcon cuts byte letters that are digits, as of a superscript two. Assay does not, which is the
// same as long as no merge crosses such a cut.
TEST_F(TokenizerJson, FalconsMergesMustNotCrossItsDigits) {
  const auto file = [&](const char* vocab, const char* merges, bool individual) {
    std::string text = replaced(kSmall, R"({"a":0,"b":1,"ab":2})", vocab);
    text = replaced(text, R"(["a b"])", merges);
    const char* contiguous = R"({"type":"Digits","individual_digits":false})";
    const char* single = R"({"type":"Digits","individual_digits":true})";
    std::vector<std::string> steps = {R"({"type":"Punctuation","behavior":"Contiguous"})",
                                      kCuttingBytes, individual ? single : contiguous};
    if (!individual) steps.push_back(split_step("[0-9][0-9][0-9]", kIsolated));
    put("tokenizer.json", replaced(text, kCuttingBytes, sequence(steps)));
    return read_tokenizer_json(folder_).has_value();
  };
  constexpr char kDigits[] = R"({"\u00b2":0,"\u00be":1,"\u00b2\u00be":2})";
  constexpr char kMixed[] = R"({"\u00c2":0,"\u00b2":1,"\u00c2\u00b2":2})";
  EXPECT_TRUE(file(kDigits, R"(["\u00b2 \u00be"])", false));
  EXPECT_THROW(file(kDigits, R"(["\u00b2 \u00be"])", true), UnknownTokenizer);
  EXPECT_THROW(file(kMixed, R"(["\u00c2 \u00b2"])", false), UnknownTokenizer);
}

TEST_F(TokenizerJson, ReadsWhichTokensEndAText) {
  EXPECT_EQ(Tokenizer::from_model(folder_), nullptr);
  put("tokenizer.json", kSmall);
  put("tokenizer_config.json", R"({"bos_token":"a","eos_token":{"content":"<s>","special":true}})");
  put("generation_config.json", R"({"eos_token_id":[1,2]})");
  put("config.json", R"({"eos_token_id":1})");
  const auto vocabulary = read_tokenizer_json(folder_);
  EXPECT_EQ(vocabulary->bos, 0);
  EXPECT_FALSE(vocabulary->add_bos);
  EXPECT_THAT(vocabulary->ends, ElementsAre(3, 1, 2, 1));
  const Tokenizer tokenizer(*vocabulary);
  EXPECT_FALSE(tokenizer.is_end_of_generation(0));
  for (const int32_t id : {1, 2, 3}) EXPECT_TRUE(tokenizer.is_end_of_generation(id)) << id;
  EXPECT_TRUE(tokenizer.is_control(3));
  put("generation_config.json", R"({"eos_token_id":[1,4]})");
  EXPECT_THAT([&] { read_tokenizer_json(folder_); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("generation_config.json"), HasSubstr("key 'eos_token_id'"))));
  put("generation_config.json", "{}");
  put("tokenizer_config.json", R"({"eos_token":"</s>"})");
  EXPECT_THAT([&] { read_tokenizer_json(folder_); },
              ThrowsMessage<Error>(HasSubstr("key 'eos_token' is '</s>', which is no token")));
}

// With `tokens` for the added ones, of which texts that a test writes have ids.
std::string with_added(const std::string& tokens) {
  return replaced(kSmall, R"({"id":3,"content":"<s>","special":true})", tokens);
}

std::vector<int32_t> encode(const std::string& folder, const std::string& text) {
  return Tokenizer::from_model(folder)->encode(text, true);
}

// The tokenizers package would give such a token another id than the file.
TEST_F(TokenizerJson, AddedTokensHaveTheNextIds) {
  for (const char* id : {"4", "5"}) {
    expect_refused({R"("id":3)", fmt::format(R"("id":{})", id), "after 3 tokens is not one"});
  }
  put("tokenizer.json", with_added(R"({"id":3,"content":"<s>"},{"id":1,"content":"b"},)"
                                   R"({"id":4,"content":"</s>"})"));
  EXPECT_THAT(encode(folder_, "a</s>b<s>"), ElementsAre(0, 4, 1, 3));
}

// The longest at the leftmost place; those of other vocabularies are found by length alone.
TEST_F(TokenizerJson, AddedTokensAreFoundFromTheLeft) {
  put("tokenizer.json", with_added(R"({"id":3,"content":"xy","special":true},)"
                                   R"({"id":4,"content":"yzz","special":true},)"
                                   R"({"id":5,"content":"x","special":true})"));
  EXPECT_THAT(encode(folder_, "xyzzxayzz"), ElementsAre(3, 5, 0, 4));
}

TEST_F(TokenizerJson, NormalizedTokensAreFoundInWhatTheOthersLeave) {
  put("tokenizer.json", with_added(R"({"id":3,"content":"xy","normalized":true},)"
                                   R"({"id":4,"content":"yz","normalized":false})"));
  EXPECT_THAT(encode(folder_, "axyzxya"), ElementsAre(0, 4, 3, 0));
}

// Gemma has runs of spaces as added tokens: text has spaces, and becomes them by merges.
TEST_F(TokenizerJson, MergesReachAnAddedTokenOfTheModel) {
  put("tokenizer.json", with_added(R"({"id":2,"content":"ab","special":false})"));
  const auto vocabulary = read_tokenizer_json(folder_);
  EXPECT_THAT(vocabulary->merged_too, ElementsAre(2));
  const auto spaces = Tokenizer::from_model(kFolder + "gemma-spaces");
  EXPECT_EQ(decode(*spaces, spaces->encode("a  b", false), {}), "a  b");
}

TEST_F(TokenizerJson, RstripTakesTheWhiteSpaceOfUnicode) {
  const std::string end = R"({"id":3,"content":"<e>","rstrip":true})";
  put("tokenizer.json", with_added(end));
  EXPECT_THAT(encode(folder_, "<e> \t\u00A0\u2003\u3000\u0085\u2028a<e>b"),
              ElementsAre(3, 0, 3, 1));
  put("tokenizer.json", with_added(end + R"(,{"id":4,"content":" q"})"));
  EXPECT_THAT([&] { read_tokenizer_json(folder_); },
              ThrowsMessage<UnknownTokenizer>(HasSubstr("' q' beside one with rstrip")));
}

// Breaks if a byte without a token were left out where the tokenizers package has one for it.
TEST_F(TokenizerJson, AByteWithoutATokenHasNoOther) {
  for (const char* key : {R"("byte_fallback":true)", R"("unk_token":"a")"}) {
    expect_refused(
        {R"("merges")", fmt::format(R"({},"merges")", key), "for a byte without a token"});
  }
}

// Ids that a vocabulary leaves out are padding, and no text.
TEST_F(TokenizerJson, GapsArePadding) {
  put("tokenizer.json", replaced(kSmall, R"("ab":2)", R"("ab":5)"));
  const auto tokenizer = Tokenizer::from_model(folder_);
  EXPECT_EQ(tokenizer->n_tokens(), 6);
  for (const int32_t id : {2, 4}) {
    EXPECT_FALSE(tokenizer->is_choosable(id)) << id;
    EXPECT_EQ(tokenizer->token_bytes(id), "");
  }
  EXPECT_THAT(tokenizer->encode("ab[PAD4]<s>", true), ElementsAre(5, 3));
}

// Where a tokenizer is unknown, ids are still run; where it is damaged, nothing is.
TEST_F(TokenizerJson, AModelGoesWithOrWithoutItsTokenizer) {
  const Gguf model = open(llama_config(), llama());
  std::string unknown;
  EXPECT_EQ(Tokenizer::from_gguf(model, &unknown), nullptr);
  EXPECT_EQ(unknown, "");
  put("tokenizer.json", kSmall);
  const auto tokenizer = Tokenizer::from_gguf(model, &unknown);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->encode("ab", true), ElementsAre(2));
  EXPECT_EQ(unknown, "");
  put("tokenizer.json", replaced(kSmall, "BPE", "Unigram"));
  EXPECT_EQ(Tokenizer::from_gguf(model, &unknown), nullptr);
  EXPECT_THAT(unknown, HasSubstr("type 'Unigram'"));
  EXPECT_THROW(Tokenizer::from_gguf(model), UnknownTokenizer);
  put("tokenizer.json", R"({"model":)");
  EXPECT_THAT([&] { Tokenizer::from_gguf(model, &unknown); },
              ThrowsMessage<Error>(HasSubstr("tokenizer.json")));
}

}  // namespace
}  // namespace assay
