#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/error.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<bool> all(size_t count) {
  return std::vector<bool>(count, true);
}

TEST(Sampler, GreedyTakesTheHighestAndTheLowestIdOfEqualOnes) {
  Sampler sampler({});
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 5, 3, 5}, all(4)), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-INFINITY, -INFINITY}, all(2)), 0);
}

// Breaks if groups of logits that are passed over held the highest, an equal one with a lower id,
// or one that is no number.
TEST(Sampler, GreedyLooksAtEachOfManyLogits) {
  std::mt19937 random(1);
  Sampler sampler({});
  constexpr size_t kLogits = 2000;
  const auto place = [&random] { return random() % kLogits; };
  for (int round = 0; round < 500; ++round) {
    std::vector<float> logits(kLogits);
    // Few values, so that many are equal; below zero, around it with zeros of both signs, above.
    const int shift = round % 5 - 2;
    for (float& logit : logits) {
      const int whole = static_cast<int>(random() % 4) + 2 * shift;
      logit = whole == 0 && random() % 2 == 0 ? -0.0F : static_cast<float>(whole);
    }
    for (size_t i = 0; i < kLogits / 3; ++i) logits[place()] = -INFINITY;
    std::vector<bool> choosable = all(kLogits);
    for (size_t i = 0; i < kLogits / 2; ++i) choosable[place()] = false;
    logits[place()] = 9;  // the highest, if it may be chosen
    const size_t odd = place();
    if (round % 3 == 0) logits[odd] = round % 2 == 0 ? NAN : -NAN;
    if (round % 7 == 0) logits[odd] = INFINITY;
    const bool number = std::isfinite(logits[odd]) || logits[odd] == -INFINITY;
    if (choosable[odd] && !number) {
      EXPECT_THROW(sampler.sample(logits, choosable), Error);
      continue;
    }
    int32_t expected = -1;
    for (size_t id = 0; id < kLogits; ++id) {
      if (!choosable[id]) continue;
      if (expected < 0 || logits[id] > logits[static_cast<size_t>(expected)]) {
        expected = static_cast<int32_t>(id);
      }
    }
    EXPECT_EQ(sampler.sample(logits, choosable), expected);
  }
}

// Qwen's logits have more rows than its vocabulary has tokens.
TEST(Sampler, PaddingIsNeverChosen) {
  const std::vector<float> logits{1, 2, 9, 9};
  Sampler greedy({});
  EXPECT_EQ(greedy.sample(logits, {true, true, false}), 1);
  Sampler warm({.temperature = 5.0, .seed = 1});
  for (int i = 0; i < 200; ++i) EXPECT_LT(warm.sample(logits, {true, true, false}), 2);
}

TEST(Sampler, NaNIsAnErrorAndNotAToken) {
  Sampler sampler({});
  EXPECT_THAT(
      [&] {
        sampler.sample(std::vector<float>{1, NAN, 2}, all(3));
      },
      ThrowsMessage<Error>(HasSubstr("the logit of token 1 is not a number")));
  EXPECT_THAT(
      [&] {
        sampler.sample(std::vector<float>{1, INFINITY}, all(2));
      },
      ThrowsMessage<Error>(HasSubstr("token 1 is inf")));
  EXPECT_THROW(sampler.sample(std::vector<float>{1}, {false}), Error);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::vector<float> logits{1.0F, 1.5F, 0.5F, 1.2F, 0.1F};
  Sampler a({.temperature = 1.0, .seed = 7});
  Sampler b({.temperature = 1.0, .seed = 7});
  Sampler c({.temperature = 1.0, .seed = 8});
  std::vector<int32_t> from_a;
  std::vector<int32_t> from_b;
  std::vector<int32_t> from_c;
  for (int i = 0; i < 50; ++i) {
    from_a.push_back(a.sample(logits, all(5)));
    from_b.push_back(b.sample(logits, all(5)));
    from_c.push_back(c.sample(logits, all(5)));
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

// Softmax at the temperature: 20,000 draws are within 4 standard deviations of their expectation.
TEST(Sampler, DrawsFollowTheSoftmax) {
  // The logarithms of 1, 2 and 5.
  const std::vector<float> logits{0.0F, 0.6931472F, 1.6094379F};
  Sampler sampler({.temperature = 1.0, .seed = 3});
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits, all(3))];
  const double weights[] = {1, 2, 5};
  for (int id = 0; id < 3; ++id) {
    const double p = weights[id] / 8.0;
    EXPECT_NEAR(counts[id], kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p))) << "token " << id;
  }
}

TEST(Sampler, TopKAndTopPLeaveOutTheTail) {
  const std::vector<float> logits{3, 2, 1, 0};
  Sampler top_k({.temperature = 10.0, .top_k = 2, .seed = 1});
  for (int i = 0; i < 100; ++i) EXPECT_LT(top_k.sample(logits, all(4)), 2);
  // The probabilities at temperature 1 are 0.644, 0.237, 0.087, 0.032.
  Sampler top_p({.temperature = 10.0, .top_p = 0.7, .seed = 1});
  for (int i = 0; i < 100; ++i) EXPECT_LT(top_p.sample(logits, all(4)), 2);
  Sampler one({.temperature = 10.0, .top_p = 0.5, .seed = 1});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.sample(logits, all(4)), 0);
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  EXPECT_THAT([] { Sampler({.temperature = -1.0}); }, ThrowsMessage<Error>(HasSubstr("--temp")));
  EXPECT_THAT([] { Sampler({.temperature = NAN}); }, ThrowsMessage<Error>(HasSubstr("--temp")));
  EXPECT_THAT([] { Sampler({.top_k = -1}); }, ThrowsMessage<Error>(HasSubstr("--top-k")));
  EXPECT_THAT([] { Sampler({.top_p = 0.0}); }, ThrowsMessage<Error>(HasSubstr("--top-p")));
  EXPECT_THAT([] { Sampler({.top_p = 1.5}); }, ThrowsMessage<Error>(HasSubstr("--top-p")));
}

}  // namespace
}  // namespace assay
