#include "engine/tokenizer/sentence_piece.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing_support::SmallVocabulary;

constexpr char kSpace[] = "\xE2\x96\x81";

class SentencePiece : public testing::Test {
 protected:
  std::vector<int32_t> encode(const std::string& text, bool add_special = false) {
    return Tokenizer(small.vocabulary).encode(text, add_special);
  }

  SmallVocabulary small{TokenizerModel::kSentencePiece};
  const int32_t bos = small.add("<s>", TokenType::kControl);
  const int32_t eos = small.add("</s>", TokenType::kControl);
  const int32_t space = small.add(kSpace, TokenType::kNormal, -9);
  const int32_t a = small.add("a", TokenType::kNormal, -9);
  const int32_t b = small.add("b", TokenType::kNormal, -9);
};

TEST_F(SentencePiece, TextBeginsWithASpaceThatIsNotThere) {
  EXPECT_THAT(encode("a"), ElementsAre(space, a));
  EXPECT_THAT(encode(" a"), ElementsAre(space, space, a));
  EXPECT_THAT(encode(""), ElementsAre());
  small.vocabulary.add_space_prefix = false;
  EXPECT_THAT(encode("a b"), ElementsAre(a, space, b));
}

TEST_F(SentencePiece, ASpaceIsPutAfterEachSpecialToken) {
  EXPECT_THAT(encode("a<s>b"), ElementsAre(space, a, bos, space, b));
}

TEST_F(SentencePiece, TheBestScoreMergesFirst) {
  small.vocabulary.add_space_prefix = false;
  const int32_t ab = small.add("ab", TokenType::kNormal, -2);
  const int32_t bb = small.add("bb", TokenType::kNormal, -1);
  EXPECT_THAT(encode("abb"), ElementsAre(a, bb));
  EXPECT_THAT(encode("ab"), ElementsAre(ab));
}

TEST_F(SentencePiece, OfEqualScoresTheLeftmostMergesFirst) {
  small.vocabulary.add_space_prefix = false;
  const int32_t aa = small.add("aa", TokenType::kNormal, -1);
  EXPECT_THAT(encode("aaa"), ElementsAre(aa, a));
}

// Found by the fuzzer: a control token in which a space is U+2581 was taken for the text with a
// space, and gave other bytes back.
TEST_F(SentencePiece, TextIsMergedIntoNormalTokensOnly) {
  small.vocabulary.add_space_prefix = false;
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined, TokenType::kUnknown,
                               TokenType::kUnused, TokenType::kUndefined}) {
    SmallVocabulary other = small;
    other.add(std::string(kSpace) + "a", type, 9);
    EXPECT_THAT(Tokenizer(other.vocabulary).encode(" a", false), ElementsAre(space, a))
        << static_cast<int>(type);
  }
}

TEST_F(SentencePiece, CharactersThatAreNoTokensBecomeBytes) {
  EXPECT_THAT(encode("a\xC3\xA9"), ElementsAre(space, a, 0xC3, 0xA9));
  EXPECT_THAT(encode("\xFFz"), ElementsAre(space, 0xFF, 'z')) << "not UTF-8";
}

TEST_F(SentencePiece, WithoutBytesTheUnknownTokenStandsForACharacter) {
  Vocabulary vocabulary;
  vocabulary.source = "m.gguf";
  vocabulary.tokens = {"<unk>", "a"};
  vocabulary.types = {TokenType::kUnknown, TokenType::kNormal};
  vocabulary.scores = {0, 0};
  EXPECT_THROW(Tokenizer(vocabulary).encode("a\xC3\xA9", false), Error);
  vocabulary.unknown = 0;
  EXPECT_THAT(Tokenizer(vocabulary).encode("a\xC3\xA9", false), ElementsAre(1, 0));
}

TEST_F(SentencePiece, BeginAndEndAreAddedWhereTheFileSaysSo) {
  small.vocabulary.bos = bos;
  small.vocabulary.eos = eos;
  EXPECT_THAT(encode("a", true), ElementsAre(space, a));
  small.vocabulary.add_bos = true;
  small.vocabulary.add_eos = true;
  EXPECT_THAT(encode("a", true), ElementsAre(bos, space, a, eos));
  EXPECT_THAT(encode("a", false), ElementsAre(space, a));
  EXPECT_THAT(encode("", true), ElementsAre(bos, eos));
}

TEST_F(SentencePiece, TokensGiveTheirBytes) {
  const int32_t word = small.add(std::string(kSpace) + "a" + kSpace);
  const Tokenizer tokenizer(small.vocabulary);
  EXPECT_EQ(tokenizer.token_bytes(word), " a ");
  EXPECT_EQ(tokenizer.token_bytes(0x0A), "\n");
  EXPECT_EQ(tokenizer.token_bytes(bos), "<s>");
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
  EXPECT_EQ(tokenizer.token_bytes(tokenizer.n_tokens()), "");
}

}  // namespace
}  // namespace assay
