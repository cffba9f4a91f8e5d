#include "engine/tokenizer/text_stream.h"

#include <gtest/gtest.h>

#include "tests/tokenizer/small_vocabulary.h"

namespace assay {
namespace {

using testing_support::SmallVocabulary;

constexpr char kReplacement[] = "\xEF\xBF\xBD";

class TextStreamTest : public testing::Test {
 protected:
  SmallVocabulary small{TokenizerModel::kSentencePiece};
  const int32_t bos = small.add("<s>", TokenType::kControl);
  const int32_t word = small.add("\xE2\x96\x81ok");
  const Tokenizer tokenizer{small.vocabulary};
};

TEST_F(TextStreamTest, WaitsUntilACharacterIsWhole) {
  TextStream stream(tokenizer);
  EXPECT_EQ(stream.put(0xF0), "");
  EXPECT_EQ(stream.put(0x9F), "");
  EXPECT_EQ(stream.put(0xA6), "");
  EXPECT_EQ(stream.put(0x99), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(TextStreamTest, ABrokenCharacterIsReplacedAndWhatFollowsIsKept) {
  TextStream stream(tokenizer);
  EXPECT_EQ(stream.put(0xE2), "");
  EXPECT_EQ(stream.put('z'), std::string(kReplacement) + "z");
  EXPECT_EQ(stream.put(0xFF), kReplacement) << "can never be completed: not held back";
  EXPECT_EQ(stream.put(0xE2), "");
  EXPECT_EQ(stream.put(0x96), "");
  EXPECT_EQ(stream.flush(), kReplacement);
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(TextStreamTest, AtTheStartOfATextThePrefixSpaceIsTakenOff) {
  const std::vector<int32_t> ids = {bos, word, word};
  EXPECT_EQ(decode(tokenizer, ids, {.at_start_of_text = true}), "ok ok");
  EXPECT_EQ(decode(tokenizer, ids, {}), " ok ok") << "the next word of a prompt";
  EXPECT_EQ(decode(tokenizer, ids, {.at_start_of_text = true, .show_control_tokens = true}),
            "<s>ok ok");
}

TEST_F(TextStreamTest, IdsOutsideTheVocabularyAreNoText) {
  TextStream stream(tokenizer);
  EXPECT_EQ(stream.put(-1), "");
  EXPECT_EQ(stream.put(1 << 30), "");
}

}  // namespace
}  // namespace assay
