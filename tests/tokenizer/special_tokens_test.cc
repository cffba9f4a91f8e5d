#include "engine/tokenizer/special_tokens.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/tokenizer/small_vocabulary.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing_support::SmallVocabulary;

// Fragments as text: what is between, and the ids of tokens in brackets.
std::vector<std::string> cut(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<std::string> out;
  for (const Fragment& fragment : SpecialTokens(vocabulary).split(text)) {
    out.push_back(fragment.token < 0 ? std::string(fragment.text)
                                     : "[" + vocabulary.text(fragment.token) + "]");
  }
  return out;
}

Vocabulary with(const std::vector<std::string>& tokens) {
  SmallVocabulary small(TokenizerModel::kBytePair);
  for (const std::string& token : tokens) small.add(token, TokenType::kControl);
  return small.vocabulary;
}

TEST(SpecialTokens, AreTakenOutOfTheText) {
  const Vocabulary vocabulary = with({"<s>", "</s>"});
  EXPECT_THAT(cut(vocabulary, "<s>a<s></s>b<"), ElementsAre("[<s>]", "a", "[<s>]", "[</s>]", "b<"));
  EXPECT_THAT(cut(vocabulary, "plain"), ElementsAre("plain"));
  EXPECT_THAT(cut(vocabulary, ""), ElementsAre());
}

TEST(SpecialTokens, ControlUserDefinedAndUnknownCountAndNoOthers) {
  SmallVocabulary small(TokenizerModel::kBytePair);
  small.add("<c>", TokenType::kControl);
  small.add("<d>", TokenType::kUserDefined);
  small.add("<u>", TokenType::kUnknown);
  small.add("<n>", TokenType::kNormal);
  small.add("<p>", TokenType::kUnused);
  EXPECT_THAT(cut(small.vocabulary, "<c><d><u><n><p>"),
              ElementsAre("[<c>]", "[<d>]", "[<u>]", "<n><p>"));
}

TEST(SpecialTokens, TheLongestGoesFirstEvenIfAShorterOneBeginsEarlier) {
  EXPECT_THAT(cut(with({"ab", "bcd"}), "abcdab"), ElementsAre("a", "[bcd]", "[ab]"));
  EXPECT_THAT(cut(with({"  ", "    "}), "       "), ElementsAre("[    ]", "[  ]", " "));
  EXPECT_THAT(cut(with({"a", "ab", "bcde"}), "abcde"), ElementsAre("[a]", "[bcde]"));
}

TEST(SpecialTokens, OfTwoAlikeTheLowerIdCounts) {
  const Vocabulary vocabulary = with({"<s>", "<s>"});
  const std::vector<Fragment> fragments = SpecialTokens(vocabulary).split("<s>");
  ASSERT_EQ(fragments.size(), 1U);
  EXPECT_EQ(fragments[0].token, 256);
}

TEST(SpecialTokens, Phi3SwallowsTheSpaceToTheRight) {
  Vocabulary vocabulary = with({"<s>", "<unk>", "<|endoftext|>", "<|end|>"});
  vocabulary.strip_after_special = true;
  EXPECT_THAT(cut(vocabulary, "<|end|> \n\v a <s> b"),
              ElementsAre("[<|end|>]", "a ", "[<s>]", " b"));
  EXPECT_THAT(cut(vocabulary, "<|end|>  <|end|>\t"), ElementsAre("[<|end|>]", "[<|end|>]"));
}

// The definition, token by token over the whole text, on texts where everything overlaps.
TEST(SpecialTokens, AgreeWithTheSlowDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const auto word = [&random](size_t at_least, size_t range) {
      std::string text(at_least + random() % range, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 2);
      return text;
    };
    std::vector<std::string> tokens;
    for (size_t length = 5; length > 0; --length) {
      if (random() % 3 != 0) tokens.push_back(word(length, 1));  // one of each length: no ties
    }
    const std::string text = word(0, 30);
    std::string marked = text;  // taken bytes become the token's number
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (size_t at = 0; (at = marked.find(tokens[i], at)) != std::string::npos;) {
        marked.replace(at, tokens[i].size(), std::string(tokens[i].size(), char('0' + i)));
      }
    }
    std::string got;
    const Vocabulary vocabulary = with(tokens);
    for (const Fragment& fragment : SpecialTokens(vocabulary).split(text)) {
      if (fragment.token < 0) {
        got += fragment.text;
      } else {
        got +=
            std::string(vocabulary.text(fragment.token).size(), char('0' + fragment.token - 256));
      }
    }
    EXPECT_EQ(got, marked) << text << ", tokens " << testing::PrintToString(tokens);
  }
}

}  // namespace
}  // namespace assay
