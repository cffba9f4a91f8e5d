// What two logs do not share is said, where it does not fail.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class CoverageTest : public ComparisonTest {};

// Breaks if logs of two model files were compared without a word.
TEST_F(CoverageTest, WarnsOfDifferentModelFiles) {
  const auto log = [&](char digit, const char* type) {
    return fmt::format(
               R"({{"assay":1,"model":{{"name":"m","sha256":"{}","arch":"llama","type":"{}"}}}})",
               std::string(64, digit), type) +
           "\n" + line("embedding", 0, waves(64));
  };
  EXPECT_THAT(compare(log('a', "Q8_0"), log('b', "Q8_0")).warnings,
              ElementsAre("the logs are of different model files: m Q8_0 (aaaaaaaa…) and m Q8_0 "
                          "(bbbbbbbb…)"));
  EXPECT_THAT(compare(log('a', "Q4_1"), log('b', "Q8_0")).warnings,
              ElementsAre("the logs are of different model files: m Q4_1 (aaaaaaaa…) and m Q8_0 "
                          "(bbbbbbbb…); those of other types differ by what storing them so costs, "
                          "and assay floors measures how much that may be"));
  EXPECT_THAT(compare(log('a', "Q4_1"), log('a', "Q4_1")).warnings, IsEmpty());
}

// Breaks if logs of two models whose files the headers do not state passed without a word, or a
// model that two tools spell in their own ways were called another.
TEST_F(CoverageTest, WarnsOfModelsOfOtherNames) {
  const auto log = [&](const std::string& name, const std::string& sha256 = "") {
    return fmt::format(R"({{"assay":1,"model":{{"name":"{}","sha256":"{}"}}}})", name, sha256) +
           "\n" + line("embedding", 0, waves(64));
  };
  const std::string other =
      "the headers name different models: 'Llama 3.2 1B' and 'Qwen2 0.5B'; where both state the "
      "file's SHA-256, they show whether it is the same";
  const std::string hash(64, 'a');
  const Comparison comparison = compare(log("Llama 3.2 1B"), log("Qwen2 0.5B"));
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.warnings, ElementsAre(other));
  EXPECT_THAT(compare(log("Llama 3.2 1B", hash), log("Qwen2 0.5B")).warnings, ElementsAre(other));
  EXPECT_THAT(compare(log("Llama 3.2 1B", hash), log("Qwen2 0.5B", hash)).warnings, IsEmpty());
  EXPECT_THAT(compare(log("Llama 3.2 1B"), log("")).warnings, IsEmpty());
  for (const char* same : {"llama-3.2-1b", "meta/Llama-3.2-1B", "m/llama-3.2-1b-q8_0.gguf"}) {
    EXPECT_THAT(compare(log("Llama 3.2 1B"), log(same)).warnings, IsEmpty()) << same;
  }
}

// Breaks if two models were called types of one, or a vocabulary that is filled up another model's.
TEST_F(CoverageTest, ModelsOfOtherSizesAreNoTypesOfOne) {
  const auto log = [&](char digit, const char* type, int n_vocab, const char* arch = "llama") {
    return fmt::format(
               R"({{"assay":1,"model":{{"name":"m","sha256":"{}","arch":"{}","type":"{}"}}}})",
               std::string(64, digit), arch, type) +
           "\n" + line("final_norm", 0, waves(64)) + line("logits", 0, waves(n_vocab, 1));
  };
  EXPECT_THAT(compare(log('a', "F32", 318), log('b', "Q8_0", 4096)).warnings,
              Contains("the logs are of different models: m F32 (aaaaaaaa…) and m Q8_0 "
                       "(bbbbbbbb…): logits has 318 elements in one and 4096 in the other"));
  EXPECT_THAT(compare(log('a', "F32", 318), log('b', "F32", 320)).warnings,
              Contains("the logs are of different model files: m F32 (aaaaaaaa…) and m F32 "
                       "(bbbbbbbb…)"));
  EXPECT_THAT(compare(log('a', "F32", 318), log('b', "F16", 318, "qwen2")).warnings,
              Contains("the logs are of different model files: m F32 (aaaaaaaa…) and m F16 "
                       "(bbbbbbbb…), of the architectures llama and qwen2"));
}

}  // namespace
}  // namespace assay
