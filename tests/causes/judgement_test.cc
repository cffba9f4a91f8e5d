#include "assay/causes/judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::causes {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

JudgingContext context() {
  JudgingContext context;
  context.target = {Checkpoint::kAttn, 0};
  context.reference.difference = 1;
  context.reference.norm = 4;
  context.reference.scale = 4;
  return context;
}

// A candidate that leaves `ratio` of the difference, over `tokens` tokens of 64 numbers.
Candidate candidate(const std::string& name, const std::string& text, double ratio, int tokens = 8,
                    int64_t parameters = 0, int rank = 0) {
  Candidate one{name, "layer_0_attn", text, parameters, rank, {}};
  one.fit.residual = ratio;
  one.fit.difference = 1;
  one.fit.norm = 4;
  one.fit.tokens = one.fit.held = tokens;
  one.fit.features = 64 * tokens;
  return one;
}

TEST(Judgement, NamesTheBestIfGoodEnough) {
  const Judgement found =
      judge({candidate("scale", "is small", 0.5), candidate("eps", "has eps 1", 1e-9)}, context());
  ASSERT_TRUE(found.cause);
  EXPECT_EQ(found.cause->name, "eps");
  EXPECT_THAT(found.cause->sentence, Not(HasSubstr("tell apart")));
  EXPECT_FALSE(judge({candidate("scale", "is small", 0.5)}, context()).cause);
  EXPECT_FALSE(judge({}, context()).cause);
}

// Breaks if a mistake that leaves far more than noise were named.
TEST(Judgement, BoundsTheResidual) {
  EXPECT_TRUE(judge({candidate("eps", "a", 0.0099)}, context()).cause);
  EXPECT_FALSE(judge({candidate("eps", "a", 0.011)}, context()).cause);
  JudgingContext near = context();
  near.base_ratio = 0.5;  // the right computation leaves half: a mistake must leave far less
  EXPECT_FALSE(judge({candidate("eps", "a", 0.006)}, near).cause);
  EXPECT_TRUE(judge({candidate("eps", "a", 0.004)}, near).cause);
  EXPECT_FALSE(judge({candidate("eps", "a", 1e-3, 1)}, context()).cause) << "of one token";
  EXPECT_TRUE(judge({candidate("eps", "a", 1e-5, 1)}, context()).cause);
}

// Breaks if a mistake that is near to the true one, as one tanh is to the tanh of a tanh, were
// reported like the true one.
TEST(Judgement, IsNotSureOfWhatLeavesFarMoreThanNoise) {
  const Judgement near = judge({candidate("eps", "a", 2e-3)}, context());
  ASSERT_TRUE(near.cause);
  EXPECT_LT(near.cause->confidence, 0.5);
  EXPECT_THAT(near.cause->sentence, HasSubstr("far more than noise"));
  const Judgement exact = judge({candidate("eps", "a", 1e-9)}, context());
  EXPECT_GT(exact.cause->confidence, 0.9);
  EXPECT_THAT(exact.cause->sentence, Not(HasSubstr("far more than noise")));
  JudgingContext noisy = context();
  noisy.noise = 1e-2;
  EXPECT_THAT(judge({candidate("eps", "a", 2e-3)}, noisy).cause->sentence,
              Not(HasSubstr("far more than noise")));
}

TEST(Judgement, FactorMustHoldAtMostElements) {
  for (const char* name : {"sign", "scale", "residual"}) {
    Candidate one = candidate(name, "a", 1e-4);
    one.fit.nearer = 75;
    one.fit.farther = 25;
    EXPECT_TRUE(judge({one}, context()).cause) << name;
    one.fit.farther = 26;
    EXPECT_FALSE(judge({one}, context()).cause) << name;
  }
  Candidate block = candidate("quant_block", "a", 1e-4);
  block.fit.nearer = 1;
  block.fit.farther = 26;
  EXPECT_TRUE(judge({block}, context()).cause);
}

// Breaks if what is named with all certainty seemed doubtful: a factor of -1 is the same.
TEST(Judgement, AFactorOfMinusOneIsNoOtherExplanationThanASign) {
  const Candidate sign = candidate("sign", "has the opposite sign", 1e-12);
  Candidate factor = candidate("scale", "is multiplied by -1", 1e-12, 8, 1);
  EXPECT_GT(judge({sign, factor}, context()).cause->confidence, 0.9);
  factor.where = "layer_0_attn_out";
  EXPECT_LT(judge({sign, factor}, context()).cause->confidence, 0.6);
}

// Breaks if an eps were named for a norm that is multiplied by a factor, and noisy.
TEST(Judgement, AnEpsLeavesLessThanAFactor) {
  JudgingContext of_norm = context();
  of_norm.target = {Checkpoint::kAttnNorm, 0};
  const Candidate eps = candidate("eps", "has eps 0.01", 6e-3);
  EXPECT_FALSE(judge({eps, candidate("scale", "is small", 4e-3)}, of_norm).cause);
  EXPECT_TRUE(judge({eps, candidate("scale", "is small", 8e-3)}, of_norm).cause);
}

TEST(Judgement, NaNIsNoFit) {
  const Candidate none = candidate("eps", "a", std::nan(""));
  EXPECT_FALSE(judge({none}, context()).cause);
  // Nor does it keep the better from standing before the worse.
  const Judgement found =
      judge({candidate("scale", "is small", 5e-3), none, candidate("eps", "b", 1e-9)}, context());
  ASSERT_TRUE(found.cause);
  EXPECT_EQ(found.cause->name, "eps");
}

// Breaks if what explains no token, which leaves nothing of nothing, hid what explains all.
TEST(Judgement, WhatPredictsNothingHidesNothing) {
  Candidate none = candidate("token_shift", "is another token's", 0);
  none.fit = {};
  const Judgement found = judge({none, candidate("sign", "is negative", 1e-12)}, context());
  ASSERT_TRUE(found.cause);
  EXPECT_EQ(found.cause->name, "sign");
}

TEST(Judgement, ListsTiedCandidates) {
  const Judgement found = judge(
      {candidate("gqa_map", "maps", 1e-12), candidate("head_order", "mixes", 1e-12)}, context());
  ASSERT_TRUE(found.cause);
  EXPECT_THAT(
      found.cause->sentence,
      HasSubstr("layer_0_attn maps, or layer_0_attn mixes, which the logs do not tell apart"));
  EXPECT_LT(found.cause->confidence, 0.5);
}

// On so few tokens they may coincide by chance: naming one would be a guess.
TEST(Judgement, NamesNoTiedCandidateOfFewTokens) {
  for (const int tokens : {1, 3}) {
    const Judgement found = judge({candidate("gqa_map", "maps", 1e-12, tokens),
                                   candidate("head_order", "mixes", 1e-12, tokens)},
                                  context());
    EXPECT_FALSE(found.cause);
    EXPECT_THAT(found.hint, HasSubstr("(gqa_map, head_order): layer_0_attn maps, or"));
    EXPECT_THAT(found.hint, HasSubstr("a log of more tokens"));
  }
  const Judgement factors = judge({candidate("sign", "is negative", 1e-12, 1),
                                   candidate("residual", "adds -1 times", 1e-12, 1, 0, 2)},
                                  context());
  ASSERT_TRUE(factors.cause);
  EXPECT_EQ(factors.cause->name, "sign");
}

// A factor of q is one of the scores: no further token would tell the two apart.
TEST(Judgement, NamesAFactorOfScoresByFewTokens) {
  const Judgement found = judge({candidate("scale", "is doubled", 1e-13, 2, 1, 2),
                                 candidate("attention_scale", "scales by 2", 1e-13, 2, 1)},
                                context());
  ASSERT_TRUE(found.cause) << found.hint;
  EXPECT_EQ(found.cause->name, "attention_scale");
  EXPECT_FALSE(judge({candidate("attention_mask", "a", 1e-13, 2),
                      candidate("attention_scale", "scales by 2", 1e-13, 2)},
                     context())
                   .cause);
}

// Breaks if a factor were named that is fitted to two numbers of one token.
TEST(Judgement, AFactorOfTwoNumbersIsNone) {
  Candidate one = candidate("scale", "a", 0, 1, 1, 1);
  one.fit.features = 2;
  one.fit.nearer = 2;
  EXPECT_FALSE(judge({one}, context()).cause);
  one.fit.features = 64;
  EXPECT_TRUE(judge({one}, context()).cause);
}

TEST(Judgement, ReportsTailsOfAtLeastTwoTokens) {
  JudgingContext tail = context();
  tail.tail = Tail{.from = 8, .first_right = 2, .last_right = 7};
  tail.n_prompt = 8;
  const Judgement found = judge({candidate("eps", "has eps 1", 1e-9, 2)}, tail);
  ASSERT_TRUE(found.cause);
  EXPECT_THAT(found.cause->sentence, HasSubstr("from token 8 on layer_0_attn has eps 1: "));
  EXPECT_THAT(found.cause->sentence, HasSubstr("; tokens 2 to 7 are right: look at the decode"));
  const Judgement whole = judge({candidate("eps", "has eps 1", 1e-9, 2)}, context());
  ASSERT_TRUE(whole.cause);
  EXPECT_LT(found.cause->confidence, whole.cause->confidence);
  EXPECT_FALSE(judge({candidate("eps", "has eps 1", 1e-9, 1)}, tail).cause);
  tail.n_prompt = 9;
  tail.tail->first_right = 7;
  EXPECT_THAT(judge({candidate("eps", "has eps 1", 1e-9, 2)}, tail).cause->sentence,
              HasSubstr("; token 7 is right: look at what evaluates the later part of a prompt"));
}

TEST(Judgement, FewerParametersBreakTies) {
  const Judgement found = judge({candidate("bias_missing", "is off by a vector", 1e-13, 8, 64),
                                 candidate("eps", "has another eps", 1e-12, 8, 1)},
                                context());
  ASSERT_TRUE(found.cause);
  EXPECT_EQ(found.cause->name, "eps");
  EXPECT_THAT(found.cause->sentence, Not(HasSubstr("vector")));
}

// Breaks if a mistake that explains later tokens alone were named for what is wrong first.
TEST(Judgement, WhatIsWrongFirstMustBeExplained) {
  Candidate later = candidate("attention_window", "has no window", 0.005);
  EXPECT_TRUE(judge({later}, context()).cause);
  later.fit.first_left = 1;
  EXPECT_FALSE(judge({later}, context()).cause);
}

}  // namespace
}  // namespace assay::causes
