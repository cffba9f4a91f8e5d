#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernels.h"

namespace assay {
namespace {

using testing::ElementsAre;

std::vector<int32_t> choose(const std::vector<float>& scores, Routing routing,
                            const std::vector<float>& bias = {}) {
  routing.n_experts = static_cast<int64_t>(scores.size());
  std::vector<int32_t> ids(static_cast<size_t>(routing.n_used));
  make_reference_kernels()->run(
      SelectCall{scores.data(), bias.empty() ? nullptr : bias.data(), routing, 1, ids.data()});
  return ids;
}

std::vector<float> weigh(const std::vector<float>& scores, const std::vector<int32_t>& ids,
                         Routing routing) {
  routing.n_experts = static_cast<int64_t>(scores.size());
  routing.n_used = static_cast<int64_t>(ids.size());
  std::vector<float> weights(ids.size());
  make_reference_kernels()->run(WeighCall{scores.data(), ids.data(), routing, 1, weights.data()});
  return weights;
}

TEST(Select, TakesTheBestFirstAndAmongEqualsTheLowest) {
  EXPECT_THAT(choose({0, 3, 1, 3, 2}, {.n_used = 3}), ElementsAre(1, 3, 4));
  EXPECT_THAT(choose({NAN, -9, 1}, {.gating = Gating::kSoftmaxOfUsed, .n_used = 3}),
              ElementsAre(2, 1, 0))
      << "NaN is the least";
}

TEST(Select, ABiasDecidesTheChoiceAndNotTheWeight) {
  const Routing routing{.gating = Gating::kSigmoid, .n_used = 1};
  EXPECT_THAT(choose({2, 1}, routing), ElementsAre(0));
  EXPECT_THAT(choose({2, 1}, routing, {0, 1}), ElementsAre(1));
  EXPECT_THAT(weigh({2, 1}, {1}, routing),
              ElementsAre(static_cast<float>(1 / (1 + std::exp(-1.0)))));
}

// Breaks if the chosen stood in the order of the choice, or NaN broke the order.
TEST(Select, ABiasDoesNotDecideTheOrder) {
  const Routing routing{.gating = Gating::kSigmoid, .n_used = 2};
  EXPECT_THAT(choose({1, 2, 3}, routing, {9, 5, 0}), ElementsAre(1, 0));
  EXPECT_THAT(choose({NAN, 2, 3}, routing, {9, 5, 0}), ElementsAre(2, 1));
}

// The best expert stands in a group that is not used: by its two best together the other wins.
TEST(Select, TakesGroupsByTheirTwoBestWithASigmoidAndByTheBestWithASoftmax) {
  const std::vector<float> scores = {3, -9, 2, 2};
  Routing routing{.gating = Gating::kSigmoid, .n_used = 2, .n_groups = 2, .n_groups_used = 1};
  EXPECT_THAT(choose(scores, routing), ElementsAre(2, 3));
  routing.gating = Gating::kSoftmax;
  EXPECT_THAT(choose(scores, routing), ElementsAre(0, 1));
}

TEST(Weigh, IsASoftmaxOverAllOrOverThoseUsed) {
  const std::vector<float> scores = {0, 1, 2};
  const double all = 1 + std::exp(1.0) + std::exp(2.0);
  const double used = std::exp(1.0) + std::exp(2.0);
  const auto weight = [](int exponent, double of) {
    return static_cast<float>(std::exp(exponent) / of);
  };
  EXPECT_THAT(weigh(scores, {2, 1}, {}), ElementsAre(weight(2, all), weight(1, all)));
  EXPECT_THAT(weigh(scores, {2, 1}, {.normalise = true}),
              ElementsAre(weight(2, used), weight(1, used)));
  EXPECT_THAT(weigh(scores, {2, 1}, {.gating = Gating::kSoftmaxOfUsed}),
              ElementsAre(weight(2, used), weight(1, used)));
  EXPECT_THAT(weigh(scores, {1}, {.normalise = true, .scale = 2.5F}), ElementsAre(2.5F));
}

// Breaks if a softmax of SparseMixer had experts that are far, left near ones out, or had the first
// in that of the second. 2.0 and 1.5 are near: (2 - 1.5) / 2 is 0.25; 1.0 is near to 1.5 alone.
TEST(Weigh, IsASoftmaxOverNearExperts) {
  const Routing routing{.gating = Gating::kSparseMixer, .jitter = 0.17};
  const std::vector<float> scores = {1.0F, 2.0F, 1.5F, -3.0F};
  EXPECT_THAT(choose(scores, {.gating = Gating::kSparseMixer, .n_used = 2}), ElementsAre(1, 2));
  const auto share = static_cast<float>(1 / (1 + std::exp(-0.5)));
  EXPECT_THAT(weigh(scores, {1, 2}, routing), ElementsAre(share, share));
  EXPECT_THAT(weigh(scores, {1, 2}, {.gating = Gating::kSparseMixer, .jitter = 0.1}),
              ElementsAre(1.0F, 1.0F));
  // Below 0 the distance is measured by the lower score: (-1 + 2) / 2.
  EXPECT_THAT(weigh({-1.0F, -2.0F}, {0, 1}, {.gating = Gating::kSparseMixer, .jitter = 0.26}),
              ElementsAre(static_cast<float>(1 / (1 + std::exp(-1.0))), 1.0F));
}

TEST(Weigh, DividesByTheSumAndWhatIsAddedToIt) {
  EXPECT_THAT(weigh({0, 0, 5}, {0, 1},
                    {.gating = Gating::kSigmoid, .normalise = true, .added_to_sum = 0.25}),
              ElementsAre(0.4F, 0.4F));
  EXPECT_THAT(weigh({0, 0, 5}, {0, 1}, {.gating = Gating::kSigmoid, .added_to_sum = 0.25}),
              ElementsAre(0.5F, 0.5F));
}

TEST(Weigh, LargeScoresDoNotOverflow) {
  EXPECT_THAT(weigh({1000, 1000}, {0, 1}, {}), ElementsAre(0.5F, 0.5F));
}

TEST(Weigh, KeepsNan) {
  for (const float weight : weigh({NAN, 1}, {1, 0}, {})) EXPECT_TRUE(std::isnan(weight));
}

}  // namespace
}  // namespace assay
