// Where two generations part, found in results that are made here as the earlier stages leave them.
#include "assay/compare/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

// A run of embeddings, layer outputs and logits, of two engines that choose the same tokens until a
// test says otherwise. The prompt has three tokens.
class FindSplit : public testing::Test {
 protected:
  static constexpr int kTokens = 8;
  static constexpr int kFork = 4;  // the logits that may choose differently
  static constexpr int64_t kRefChoice = 10;
  static constexpr int64_t kGotChoice = 20;

  enum Checkpoint : int32_t { kEmbedding, kLayer, kLogitsId };

  FindSplit() {
    for (const char* name : {"embedding", "layer_0_output", "logits"}) {
      comparison_.checkpoints.push_back(parse_checkpoint_name(name));
    }
    for (int token = 0; token < kTokens; ++token) {
      for (const Checkpoint checkpoint : {kEmbedding, kLayer, kLogitsId}) {
        RecordResult& result = comparison_.results.emplace_back();
        result.checkpoint = checkpoint;
        result.token_idx = token;
        result.evidence = Evidence::kWhole;
        result.metrics.facts.all_values = true;
        if (checkpoint != kLogitsId) continue;
        result.metrics.argmax_ref = result.metrics.argmax_got = kRefChoice;
      }
    }
    tokens_.n_prompt = 3;
  }

  RecordResult& at(Checkpoint checkpoint, int token) {
    for (RecordResult& result : comparison_.results) {
      if (result.checkpoint == checkpoint && result.token_idx == token) return result;
    }
    throw std::out_of_range("no such record");
  }

  void leave_out(Checkpoint checkpoint) {
    std::erase_if(comparison_.results,
                  [&](const RecordResult& result) { return result.checkpoint == checkpoint; });
  }

  void choose_otherwise(int token) { at(kLogitsId, token).metrics.argmax_got = kGotChoice; }

  static void fail(RecordResult& result, double rel_l2 = 1.4) {
    result.metrics.rel_l2 = rel_l2;
    result.evidence = Evidence::kFailed;
    result.failing_metric = Metric::kRelL2;
  }

  // Other tokens went in from `first` on.
  void differ_from(int first) {
    for (RecordResult& result : comparison_.results) {
      if (result.token_idx >= first) fail(result);
    }
  }

  std::optional<Split> find() const { return find_split(comparison_, tokens_); }

  Comparison comparison_;
  KnownTokens tokens_;
};

TEST_F(FindSplit, StartsAtTheDifferingToken) {
  EXPECT_FALSE(find()) << "all is equal";
  choose_otherwise(kFork);
  EXPECT_FALSE(find()) << "the tokens were forced on both";
  differ_from(kFork + 1);
  const auto split = find();
  ASSERT_TRUE(split);
  EXPECT_EQ(split->token_idx, kFork + 1);
  EXPECT_EQ(split->ref_token, kRefChoice);
  EXPECT_EQ(split->got_token, kGotChoice);
  EXPECT_TRUE(split->seen);
}

// Breaks if an engine that goes wrong at a token were excused because it is wrong.
TEST_F(FindSplit, RequiresADifferentChoiceBefore) {
  differ_from(kFork + 1);
  EXPECT_FALSE(find());
  choose_otherwise(kFork + 1);
  EXPECT_FALSE(find()) << "it was wrong before it chose";
}

// Breaks if any error after another choice were taken for another token.
TEST_F(FindSplit, RequiresTheEmbeddingOfAnotherToken) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  RecordResult& embedding = at(kEmbedding, kFork + 1);
  embedding.metrics.rel_l2 = kOtherToken;
  EXPECT_FALSE(find());
  embedding.metrics.rel_l2 = std::nextafter(kOtherToken, 1.0);
  EXPECT_TRUE(find());
  embedding.metrics.rel_l2 = std::numeric_limits<double>::quiet_NaN();
  for (const Metric metric : {Metric::kNonfinite, Metric::kSize, Metric::kQuarantine}) {
    embedding.failing_metric = metric;
    EXPECT_FALSE(find()) << metric_name(metric) << " is not of another token";
  }
}

// Breaks if a broken embedding, whose every record is off, excused everything.
TEST_F(FindSplit, RequiresAllEarlierRecordsToPass) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  fail(at(kEmbedding, 1));
  EXPECT_FALSE(find());
  at(kEmbedding, 1).failing_metric = Metric::kArgmax;
  EXPECT_TRUE(find()) << "but for an argmax";
}

TEST_F(FindSplit, IgnoresCheckpointsThatFirstAppearThere) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  std::erase_if(comparison_.results, [](const RecordResult& result) {
    return result.checkpoint == kEmbedding && result.token_idx <= kFork;
  });
  EXPECT_FALSE(find());
}

TEST_F(FindSplit, PromptNeverSplits) {
  choose_otherwise(1);
  differ_from(2);
  EXPECT_FALSE(find());
  tokens_.n_prompt = 2;  // the logits of the last token of the prompt choose the first of the rest
  ASSERT_TRUE(find());
  EXPECT_EQ(find()->token_idx, 2);
}

// Breaks if a choice were remembered after a token showed that it did not matter.
TEST_F(FindSplit, SameTokenResetsTheChoice) {
  choose_otherwise(kFork - 1);
  differ_from(kFork + 1);
  EXPECT_FALSE(find());
  choose_otherwise(kFork);
  EXPECT_TRUE(find());
}

// Breaks if logits that are wrong, and so chose wrongly, made a second finding of what follows.
TEST_F(FindSplit, AllowsTheChoosingLogitsToFail) {
  leave_out(kEmbedding);
  leave_out(kLayer);
  choose_otherwise(kFork);
  differ_from(kFork);
  EXPECT_TRUE(find());
  fail(at(kLogitsId, kFork - 1));
  EXPECT_FALSE(find()) << "they were wrong before";
}

// Breaks if a head that happens to agree showed the same token, or a summary that fails did not
// show another.
TEST_F(FindSplit, PassingPartShowsNothingOfTheToken) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  RecordResult& embedding = at(kEmbedding, kFork + 1);
  embedding.metrics.facts = {.head = true};
  embedding.metrics.rel_l2 = 0;
  embedding.evidence = Evidence::kPartial;
  EXPECT_TRUE(find()) << "the layer after it tells";
  embedding.metrics.identical = true;
  embedding.metrics.compared = 3;
  EXPECT_TRUE(find()) << "by chance";
  embedding.metrics.compared = 10;
  EXPECT_FALSE(find()) << "no other token has the same bits";
  embedding.metrics.identical = false;
  fail(embedding, 0.05);
  EXPECT_TRUE(find()) << "the least that it differs by";
  embedding.metrics.facts = {.sketch = true};
  EXPECT_FALSE(find()) << "a sketch tells of the whole";
}

// Breaks if the tokens in a judged log's header were ignored.
TEST_F(FindSplit, TheJudgedHeaderMayNameTheToken) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  tokens_.got = {1, 2, 3, 4, 5, kRefChoice};
  EXPECT_FALSE(find()) << "it went on with the reference's choice";
  tokens_.got.back() = 30;
  EXPECT_FALSE(find()) << "it continued with a third token";
  tokens_.got.back() = kGotChoice;
  EXPECT_TRUE(find());
  tokens_.got = {2, 3, 4, 5, kRefChoice};
  tokens_.got_first = 1;
  EXPECT_FALSE(find()) << "by its position";
  tokens_.n_prompt = 0;
  tokens_.got.back() = kGotChoice;
  EXPECT_FALSE(find()) << "of two headers the only one says that it is the prompt";
}

// Breaks if an error after a level choice passed where nobody knows what was generated.
TEST_F(FindSplit, RequiresTheEmbeddingIfThePromptEndIsUnknown) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  tokens_.n_prompt = 0;
  EXPECT_TRUE(find()->seen);
  leave_out(kEmbedding);
  ASSERT_TRUE(find());
  EXPECT_FALSE(find()->seen);
  tokens_.n_prompt = 3;
  EXPECT_TRUE(find()->seen);
}

TEST_F(FindSplit, UnstatedArgmaxIsNoDifferentChoice) {
  choose_otherwise(kFork);
  differ_from(kFork + 1);
  at(kLogitsId, kFork).metrics.argmax_ref.reset();
  EXPECT_FALSE(find());
}

TEST(KnownTokens, AreFoundByTheirPosition) {
  KnownTokens tokens;
  EXPECT_FALSE(tokens.got_at(0));
  tokens.got = {7, 8};
  tokens.got_first = -1;
  EXPECT_EQ(tokens.got_at(-1), 7);
  EXPECT_EQ(tokens.got_at(0), 8);
  EXPECT_FALSE(tokens.got_at(1));
  EXPECT_FALSE(tokens.got_at(-2));
  EXPECT_FALSE(tokens.got_at(std::numeric_limits<int64_t>::max())) << "which would overflow";
}

class OtherContinuation : public ComparisonTest {
 protected:
  // Positions 0 to 3, of which those from `other` on are of other tokens.
  static std::string log(const std::string& header, int64_t other = 9) {
    std::string text = header + "\n";
    for (int64_t i = 0; i < 4; ++i) {
      text += line("embedding", i, waves(16, static_cast<int>(i < other ? i : i + 20)));
    }
    return text;
  }
};

// Breaks if prompts of other lengths, or sampled tokens, failed without a word on the tokens.
TEST_F(OtherContinuation, IsToldWhereItMayBeTheReason) {
  const std::string three = R"({"assay":1,"tokens":[1,2,3]})";
  const std::string four = R"({"assay":1,"tokens":[1,2,3,4]})";
  const std::string sampled = R"({"assay":1,"tokens":[1,2,3],"sampling":"temp 3, seed 4"})";
  using testing::Contains;
  using testing::HasSubstr;
  using testing::IsEmpty;
  EXPECT_THAT(
      compare(log(four), log(three, 3)).warnings,
      Contains(HasSubstr("at token 3, beyond the 3 that one header names and within the 4")));
  EXPECT_THAT(compare(log(three), log(four, 3)).warnings, Contains(HasSubstr("beyond the 3")));
  EXPECT_THAT(compare(log(three), log(sampled, 3)).warnings,
              Contains(HasSubstr("which was sampled in")));
  EXPECT_THAT(compare(log(four), log(three)).warnings, IsEmpty());
  EXPECT_THAT(compare(log(four), log(three, 2)).warnings, IsEmpty());
  EXPECT_THAT(compare(log(sampled), log(three, 2)).warnings, IsEmpty());
}

}  // namespace
}  // namespace assay
