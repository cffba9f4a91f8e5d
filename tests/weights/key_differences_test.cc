#include "assay/weights/key_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "assay/weights/compare_weights.h"
#include "base/error.h"
#include "tests/support/paths.h"
#include "tests/weights/edited_model.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class KeyDifferences : public testing::Test {
 protected:
  std::vector<KeyDifference> differences(const EditedModel& got) {
    return key_differences(ref_, got.gguf(), warnings_);
  }
  WeightsVerdict verdict(const EditedModel& got) {
    return compare_weights(ref_, got.gguf(), {.tensors = {"output_norm.weight"}}).verdict;
  }

  const std::string path_ = source_path("golden/trained-llama/trained-llama-f16.gguf");
  const Gguf ref_{path_};
  EditedModel got_{path_};
  std::vector<std::string> warnings_;
};

TEST_F(KeyDifferences, OfTheSameFileThereAreNone) {
  EXPECT_THAT(differences(got_), SizeIs(0));
}

// What would break: a network with another rotation that is called the same model.
TEST_F(KeyDifferences, AnotherHyperparameterCounts) {
  got_.metadata["llama.rope.freq_base"] = 12345.0;
  const auto found = differences(got_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].key, "llama.rope.freq_base");
  EXPECT_EQ(found[0].got, "12345");
  EXPECT_TRUE(found[0].counts);
  EXPECT_EQ(verdict(got_), WeightsVerdict::kMismatch);
}

// What would break: a key that only other engines read, such as the size of the vocabulary.
TEST_F(KeyDifferences, AnotherValueThatBothStateCountsWhateverReadsIt) {
  const std::vector<std::pair<GgufValue, GgufValue>> values = {
      {int64_t{64}, int64_t{63}},
      {0.5, 0.25},
      {true, false},
      {std::string_view("one"), std::string_view("other")},
      {GgufArray{std::vector<std::string_view>{"a"}},
       GgufArray{std::vector<std::string_view>{"b"}}}};
  for (const auto& [key, counts] : {std::pair("llama.vocab_size", true),
                                    std::pair("llama.mine", true), std::pair("mine.size", false)}) {
    for (const auto& [one, other] : values) {
      EditedModel ref = got_;
      ref.metadata[key] = one;
      EditedModel got = ref;
      got.metadata[key] = other;
      const auto found = key_differences(ref.gguf(), got.gguf(), warnings_);
      ASSERT_THAT(found, SizeIs(1)) << key;
      EXPECT_EQ(found[0].counts, counts) << key << " " << found[0].ref;
    }
  }
}

// What would break: a folder's 1e-5, which is no float, against that of a file.
TEST_F(KeyDifferences, TheRoundingOfANumberToFloatDoesNotCount) {
  for (const char* key : {"llama.mine", "llama.attention.scale"}) {
    EditedModel ref = got_;
    ref.metadata[key] = 0.1767766952966369;
    EditedModel got = ref;
    got.metadata[key] = static_cast<double>(0.1767766952966369F);
    const auto found = key_differences(ref.gguf(), got.gguf(), warnings_);
    ASSERT_THAT(found, SizeIs(1)) << key;
    EXPECT_FALSE(found[0].counts) << key;
  }
}

// What would break: converters that leave out what is the default, called wrong; or one that leaves
// out what is not, called right.
TEST_F(KeyDifferences, AKeyThatIsLeftOutCountsWhereItIsNoDefault) {
  const double base = ref_.get_float("llama.rope.freq_base", 10000.0);
  EditedModel stated = got_;
  stated.metadata["llama.rope.freq_base"] = base;
  EditedModel missing = stated;
  missing.metadata.erase("llama.rope.freq_base");
  const Gguf ref = stated.gguf();
  EXPECT_EQ(compare_weights(ref, missing.gguf(), {.tensors = {"output_norm.weight"}}).verdict,
            base == 10000.0 ? WeightsVerdict::kMatch : WeightsVerdict::kMismatch);
  EditedModel other = stated;
  other.metadata["llama.rope.freq_base"] = 500000.0;
  const Gguf large = other.gguf();
  EXPECT_EQ(compare_weights(large, missing.gguf(), {.tensors = {"output_norm.weight"}}).verdict,
            WeightsVerdict::kMismatch);
}

TEST_F(KeyDifferences, AnotherTokenCounts) {
  if (ref_.find("tokenizer.ggml.tokens") == nullptr) GTEST_FAIL() << "the model has no vocabulary";
  auto tokens = ref_.get_strings("tokenizer.ggml.tokens");
  tokens[7] = "another";
  got_.metadata["tokenizer.ggml.tokens"] = GgufArray{tokens};
  const auto found = differences(got_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].got, HasSubstr("[7] is 'another'"));
  EXPECT_TRUE(found[0].counts);
  got_.metadata.erase("tokenizer.ggml.tokens");
  EXPECT_THAT(differences(got_), SizeIs(0));
  EXPECT_THAT(warnings_, testing::ElementsAre(HasSubstr("vocabularies are not compared")));
}

TEST_F(KeyDifferences, ANameOnlyDescribes) {
  got_.metadata["general.name"] = std::string_view("another");
  const auto found = differences(got_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_FALSE(found[0].counts);
  EXPECT_EQ(verdict(got_), WeightsVerdict::kMatch);
}

TEST_F(KeyDifferences, AnotherArchitectureIsAnError) {
  got_.metadata["general.architecture"] = std::string_view("qwen2");
  EXPECT_THROW(verdict(got_), Error);
}

}  // namespace
}  // namespace assay
