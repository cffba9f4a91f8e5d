#include "engine/tokenizer/byte_pair.h"

#include <gmock/gmock.h>

#include "engine/tokenizer/tokenizer.h"
#include "tests/tokenizer/small_vocabulary.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing_support::SmallVocabulary;

class BytePair : public testing::Test {
 protected:
  BytePair() { small.vocabulary.pre_tokenizer = "gpt-2"; }
  std::vector<int32_t> encode(const std::string& text) {
    return Tokenizer(small.vocabulary).encode(text, false);
  }

  SmallVocabulary small{TokenizerModel::kBytePair};
};

TEST_F(BytePair, TheFirstOfTheMergesMergesFirst) {
  const int32_t bc = small.merge("b", "c");
  const int32_t ab = small.merge("a", "b");
  const int32_t abc = small.merge("ab", "c");
  EXPECT_THAT(encode("abc"), ElementsAre('a', bc));
  EXPECT_THAT(encode("ab"), ElementsAre(ab));
  small.vocabulary.merges.emplace_back("a bc");
  EXPECT_THAT(encode("abc"), ElementsAre(abc)) << "two ways to one token";
}

TEST_F(BytePair, OfEqualRanksTheLeftmostMergesFirst) {
  const int32_t aa = small.merge("a", "a");
  EXPECT_THAT(encode("aaa"), ElementsAre(aa, 'a'));
}

TEST_F(BytePair, NothingMergesAcrossWords) {
  small.merge("a", "\xC4\xA0");  // the letter of the space
  EXPECT_THAT(encode("a b"), ElementsAre('a', ' ', 'b'));
}

// A merge may lead through a text that is no token itself; if it ends there, bytes come out.
TEST_F(BytePair, TextsThatAreNoTokensAreStepsOnly) {
  small.vocabulary.merges.emplace_back("a b");
  EXPECT_THAT(encode("ab"), ElementsAre('a', 'b'));
  small.vocabulary.merges.emplace_back("ab c");
  const int32_t abc = small.add("abc");
  EXPECT_THAT(encode("abc"), ElementsAre(abc));
}

TEST_F(BytePair, LlamaTakesAWholeWordWhateverTheMergesSay) {
  const int32_t ab = small.merge("a", "b");
  const int32_t word = small.add("abcd");
  EXPECT_THAT(encode("abcd"), ElementsAre(ab, 'c', 'd'));
  small.vocabulary.pre_tokenizer = "llama-bpe";
  EXPECT_THAT(encode("abcd"), ElementsAre(word));
}

TEST_F(BytePair, ASpecialTokenIsNoWord) {
  small.vocabulary.pre_tokenizer = "llama-bpe";
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined}) {
    SmallVocabulary other = small;
    other.add(
        "\xC4\xA0"
        "a",
        type);  // U+0120, the letter of a space
    EXPECT_THAT(Tokenizer(other.vocabulary).encode(" a", false), ElementsAre(' ', 'a'));
  }
}

// As in the models' own tokenizers; an unknown token here would be a control token in the prompt.
TEST_F(BytePair, AByteWithoutATokenIsLeftOut) {
  small.vocabulary.tokens['z'] = "(no z)";
  small.vocabulary.unknown = 7;
  EXPECT_THAT(encode("aza"), ElementsAre('a', 'a'));
}

TEST_F(BytePair, EveryByteGoesInAndComesOut) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Tokenizer tokenizer(small.vocabulary);
  std::string back;
  for (const int32_t id : tokenizer.encode(all, false)) back += tokenizer.token_bytes(id);
  EXPECT_EQ(back, all);
}

TEST_F(BytePair, AddedTokensArePlainText) {
  const int32_t added = small.add("a b\xC3\xA9", TokenType::kUserDefined);
  const int32_t foreign = small.add("\xE6\x88\x91");  // no letter that stands for a byte
  const Tokenizer tokenizer(small.vocabulary);
  EXPECT_EQ(tokenizer.token_bytes(added), "a b\xC3\xA9");
  EXPECT_EQ(tokenizer.token_bytes(foreign), "\xE6\x88\x91");
  EXPECT_THAT(tokenizer.encode("xa b\xC3\xA9y", false), ElementsAre('x', added, 'y'));
}

}  // namespace
}  // namespace assay
