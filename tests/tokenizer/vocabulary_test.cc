#include "engine/tokenizer/vocabulary.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::GgufBuilder;

constexpr char kKeys[] = "tokenizer.ggml.";

std::string key(const char* name) {
  return std::string(kKeys) + name;
}

// The file is gone from the disk when this returns; its mapping lives on.
Gguf file_of(const GgufBuilder& builder) {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = testing::TempDir() + "vocabulary_" + name + ".gguf";
  Gguf file(builder.write(path));
  std::filesystem::remove(path);
  return file;
}

GgufBuilder sentence_piece() {
  return GgufBuilder()
      .text(key("model"), "llama")
      .strings(key("tokens"), {"<unk>", "<s>", "</s>", "a"})
      .floats(key("scores"), {0, 0, 0, -1})
      .ints(key("token_type"), {2, 3, 3, 1});
}

GgufBuilder byte_pair() {
  return GgufBuilder()
      .text(key("model"), "gpt2")
      .text(key("pre"), "gpt-2")
      .strings(key("tokens"), {"a", "b", "ab", "<|end|>"})
      .ints(key("token_type"), {1, 1, 1, 3})
      .strings(key("merges"), {"a b"});
}

void expect_error(const GgufBuilder& builder, const std::string& at_key, const std::string& what) {
  const Gguf file = file_of(builder);
  try {
    Tokenizer::from_gguf(file);
    ADD_FAILURE() << "accepted; expected: " << what;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    EXPECT_THAT(error.what(), HasSubstr(key(at_key.c_str())));
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(Vocabulary, AFileWithoutOneHasNoTokenizer) {
  EXPECT_EQ(Tokenizer::from_gguf(file_of(GgufBuilder().text(key("model"), "no_vocab"))), nullptr);
  EXPECT_EQ(Tokenizer::from_gguf(file_of(GgufBuilder().text("general.name", "x"))), nullptr);
}

TEST(Vocabulary, AnUnknownModelListsTheKnownOnes) {
  expect_error(GgufBuilder().text(key("model"), "bert"), "model", "supported are llama, gpt2");
}

TEST(Vocabulary, AnUnknownPreTokenizerListsTheKnownOnes) {
  expect_error(GgufBuilder().text(key("model"), "gpt2").text(key("pre"), "no-such"), "pre",
               "supported are gpt-2");
}

// A model whose tokenizer is unknown still runs, with ids.
TEST(Vocabulary, WhatIsUnknownIsReportedWhereItIsAskedFor) {
  for (const GgufBuilder& builder :
       {GgufBuilder().text(key("model"), "t5"),
        GgufBuilder().text(key("model"), "gpt2").text(key("pre"), "x")}) {
    std::string unknown;
    EXPECT_EQ(Tokenizer::from_gguf(file_of(builder), &unknown), nullptr);
    EXPECT_THAT(unknown, HasSubstr("is not supported; give the prompt as ids with --tokens"));
  }
  std::string unknown;
  EXPECT_THROW(Tokenizer::from_gguf(file_of(byte_pair().u32(key("bos_token_id"), 9)), &unknown),
               Error);
}

TEST(Vocabulary, LengthsMustAgree) {
  expect_error(GgufBuilder().text(key("model"), "llama"), "tokens", "no tokens");
  const auto tokens = [] {
    return GgufBuilder().text(key("model"), "llama").strings(key("tokens"), {"a", "b"});
  };
  expect_error(tokens().floats(key("scores"), {0}), "scores", "1 entries for 2 tokens");
  expect_error(tokens().ints(key("token_type"), {1, 1, 1}), "token_type", "3 entries for 2 tokens");
}

TEST(Vocabulary, ValuesMustBeOfTheirKind) {
  const auto tokens = [] {
    return GgufBuilder().text(key("model"), "llama").strings(key("tokens"), {"a", "b"});
  };
  expect_error(tokens().ints(key("token_type"), {1, 7}), "token_type", "7 at index 1");
  expect_error(tokens().ints(key("token_type"), {-1, 1}), "token_type", "-1 at index 0");
  expect_error(tokens().ints(key("token_type"), {1, 6}), "tokens", "'b' at index 1");
  for (const double score : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, -1e300}) {
    expect_error(tokens().doubles(key("scores"), {0, score}), "scores", "index 1");
  }
  expect_error(tokens().floats(key("scores"), {0, std::nanf("")}), "scores", "index 1");
  expect_error(tokens().floats(key("scores"), {0, -HUGE_VALF}), "scores", "index 1");
  expect_error(tokens().text(key("scores"), "high"), "scores", "");
  expect_error(GgufBuilder().text(key("model"), "llama").ints(key("tokens"), {1}), "tokens", "");
  expect_error(tokens().text(key("bos_token_id"), "a"), "bos_token_id", "");
}

TEST(Vocabulary, IdsMustBeInRange) {
  for (const char* name :
       {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"}) {
    expect_error(sentence_piece().u32(key(name), 4), name, "token 4 of a vocabulary of 4");
    expect_error(sentence_piece().u32(key(name), 0xFFFFFFFF), name, "4294967295");
  }
  expect_error(byte_pair().boolean(key("add_eos_token"), true), "add_eos_token", "no eos_token_id");
  expect_error(byte_pair().boolean(key("add_bos_token"), true), "add_bos_token", "no bos_token_id");
}

TEST(Vocabulary, MergesMustBeTwoParts) {
  const auto tokens = [] {
    return GgufBuilder().text(key("model"), "gpt2").strings(key("tokens"), {"a", "b"});
  };
  for (const char* merge : {"ab", "", " ", "a ", " b", "a b c", "a  b"}) {
    expect_error(tokens().strings(key("merges"), {"a b", merge}), "merges", "at index 1");
  }
}

// Control characters of a hostile token must not reach the terminal.
TEST(Vocabulary, MessagesAreOneCleanLine) {
  const Gguf file = file_of(GgufBuilder()
                                .text(key("model"), "llama")
                                .strings(key("tokens"), {"\n\x1B[31m"})
                                .ints(key("token_type"), {6}));
  try {
    Tokenizer::from_gguf(file);
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const char* c = error.what(); *c != '\0'; ++c) EXPECT_GE(*c, ' ');
  }
}

TEST(Vocabulary, EmptyAndRepeatedTokensAreHarmless) {
  const Gguf file = file_of(GgufBuilder()
                                .text(key("model"), "llama")
                                .boolean(key("add_space_prefix"), false)
                                .boolean(key("add_bos_token"), false)
                                .strings(key("tokens"), {"", "a", "a", ""})
                                .ints(key("token_type"), {3, 1, 1, 1}));
  const auto tokenizer = Tokenizer::from_gguf(file);
  EXPECT_THAT(tokenizer->encode("aa", true), ElementsAre(1, 1));
  EXPECT_EQ(tokenizer->token_bytes(0), "");
  EXPECT_EQ(tokenizer->token_bytes(3), "");
}

TEST(Vocabulary, FlagsHaveDefaultsByModel) {
  const auto spm = load_vocabulary(file_of(sentence_piece().u32(key("bos_token_id"), 1)));
  EXPECT_TRUE(spm->add_bos);
  EXPECT_FALSE(spm->add_eos);
  EXPECT_TRUE(spm->add_space_prefix);
  const auto gpt2 = load_vocabulary(file_of(byte_pair().u32(key("bos_token_id"), 3)));
  EXPECT_FALSE(gpt2->add_bos);
  EXPECT_FALSE(gpt2->add_space_prefix);
  const auto llama3 = load_vocabulary(file_of(GgufBuilder()
                                                  .text(key("model"), "gpt2")
                                                  .text(key("pre"), "llama-bpe")
                                                  .strings(key("tokens"), {"<s>"})
                                                  .u32(key("bos_token_id"), 0)));
  EXPECT_TRUE(llama3->add_bos);
}

// As llama.cpp has them. A byte-pair vocabulary gets none.
TEST(Vocabulary, SentencePieceIdsHaveDefaultsWhereThereAreSuchTokens) {
  const auto whole = load_vocabulary(file_of(sentence_piece()));
  EXPECT_EQ(whole->unknown, 0);
  EXPECT_EQ(whole->bos, 1);
  EXPECT_EQ(whole->eos, 2);
  EXPECT_TRUE(whole->add_bos);
  const auto named = load_vocabulary(file_of(sentence_piece().u32(key("bos_token_id"), 3)));
  EXPECT_EQ(named->bos, 3);
  const auto one = load_vocabulary(
      file_of(GgufBuilder().text(key("model"), "llama").strings(key("tokens"), {"a"})));
  EXPECT_EQ(one->unknown, 0);
  EXPECT_EQ(one->bos, std::nullopt);
  EXPECT_EQ(one->eos, std::nullopt);
  EXPECT_FALSE(one->add_bos);
  const auto tokenizer = Tokenizer::from_gguf(file_of(sentence_piece()));
  EXPECT_THAT(tokenizer->encode("a", true), ElementsAre(1, 0, 3)) << "no token for the space";
  const auto bytes = load_vocabulary(file_of(byte_pair()));
  EXPECT_EQ(bytes->bos, std::nullopt);
  EXPECT_EQ(bytes->eos, std::nullopt);
}

// Breaks if a hostile file could make the search for special tokens as large as it likes.
TEST(Vocabulary, SpecialTokensAreBounded) {
  const auto with = [](size_t count, size_t bytes, int32_t type) {
    std::vector<std::string> tokens;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(std::string(bytes - 3, 'x') + std::to_string(100 + i));
    }
    return GgufBuilder()
        .text(key("model"), "llama")
        .strings(key("tokens"), tokens)
        .ints(key("token_type"), std::vector<int32_t>(count, type));
  };
  for (const int32_t type : {2, 3, 4}) {
    expect_error(with(1, 65537, type), "tokens",
                 "the special token at index 0 has 65537 bytes, more than 65536");
  }
  expect_error(with(129, 65536, 3), "tokens",
               "the special tokens have 8454144 bytes, more than 8388608");
  EXPECT_NE(load_vocabulary(file_of(with(128, 65536, 3))), std::nullopt);
  EXPECT_NE(load_vocabulary(file_of(with(200, 65537, 1))), std::nullopt) << "not special";
}

TEST(Vocabulary, Phi3IsKnownByNameOrArchitecture) {
  EXPECT_FALSE(load_vocabulary(file_of(sentence_piece()))->strip_after_special);
  for (const char* name : {"Phi3", "phi-3-mini"}) {
    EXPECT_TRUE(
        load_vocabulary(file_of(sentence_piece().text("general.name", name)))->strip_after_special);
  }
  EXPECT_TRUE(load_vocabulary(file_of(sentence_piece()
                                          .text("general.name", "Phi 3 Mini")
                                          .text("general.architecture", "phi3")))
                  ->strip_after_special);
}

// Stopping at a token that the file does not name would cut a text short.
TEST(Tokenizer, OnlyIdsThatTheFileNamesEndTheGeneration) {
  const auto silent = Tokenizer::from_gguf(file_of(byte_pair()));
  for (int32_t id = -1; id <= silent->n_tokens(); ++id) {
    EXPECT_FALSE(silent->is_end_of_generation(id)) << id;
  }
  const auto loud = Tokenizer::from_gguf(file_of(byte_pair()
                                                     .u32(key("eos_token_id"), 3)
                                                     .u32(key("eot_token_id"), 2)
                                                     .u32(key("eom_token_id"), 1)));
  EXPECT_FALSE(loud->is_end_of_generation(0));
  for (const int32_t id : {1, 2, 3}) EXPECT_TRUE(loud->is_end_of_generation(id)) << id;
}

TEST(Tokenizer, PaddingIsNeverChosen) {
  const auto tokenizer = Tokenizer::from_gguf(
      file_of(GgufBuilder()
                  .text(key("model"), "llama")
                  .strings(key("tokens"), {"a", "unused", "[PAD2]", "[PAD2]", "<s>"})
                  .ints(key("token_type"), {1, 5, 4, 4, 3})));
  EXPECT_TRUE(tokenizer->is_choosable(0));
  EXPECT_FALSE(tokenizer->is_choosable(1)) << "of type unused";
  EXPECT_FALSE(tokenizer->is_choosable(2)) << "named as padding";
  EXPECT_TRUE(tokenizer->is_choosable(3)) << "another token's padding name is a text";
  EXPECT_TRUE(tokenizer->is_choosable(4));
  EXPECT_FALSE(tokenizer->is_choosable(5)) << "a row of the output matrix without a token";
  EXPECT_FALSE(tokenizer->is_choosable(-1));
}

}  // namespace
}  // namespace assay
