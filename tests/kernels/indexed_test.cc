// Attention that sees chosen positions alone, and their choice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/support.h"

namespace assay {
namespace {

using kernel_testing::Random;
using testing::ElementsAre;

// Of one head that is 1 wide, whose query is 1: the keys are the scores, without a bound below.
std::vector<int32_t> choose(const std::vector<float>& keys, int64_t top_k, bool relu = false) {
  const float one = 1.0F;
  std::vector<int32_t> indexed(static_cast<size_t>(top_k));
  IndexCall call{&one, &one, keys.data(), {1, 1, top_k}, std::ssize(keys) - 1, 1, indexed.data()};
  call.relu = relu;
  make_reference_kernels()->run(call);
  return indexed;
}

TEST(Index, ChoosesTheHighestScoresInTheOrderOfPositions) {
  EXPECT_THAT(choose({4, 1, 3, 5, 2}, 3), ElementsAre(0, 2, 3));
  EXPECT_THAT(choose({1, 2, 2, 2}, 2), ElementsAre(1, 2)) << "among equals the lowest";
  EXPECT_THAT(choose({4, 1}, 3), ElementsAre(0, 1, -1)) << "all, and none behind them";
  EXPECT_THAT(choose({NAN, -5, NAN, -7}, 2), ElementsAre(1, 3)) << "NaN is the least";
  EXPECT_THAT(choose({-3, -1, 2, -2}, 2, true), ElementsAre(0, 2)) << "below 0 all are alike";
}

// A score is the sum of the heads' products above 0, times their weights; each token has its own.
TEST(Index, SumsHeadsByTheirWeights) {
  const std::vector<float> q = {1, 0, 0, 1, /*next*/ 1, 0, 0, 1};
  const std::vector<float> weights = {1, 0.5F, /*next*/ -1, 0.5F};
  const std::vector<float> k = {1, 1, 2, -9,
                                0, 3, 0, 0};  // scores 1.5, 2, 1.5, and -.5, -2, 1.5, 0
  std::vector<int32_t> indexed(4);
  make_reference_kernels()->run(
      IndexCall{q.data(), weights.data(), k.data(), {2, 2, 2}, 2, 2, indexed.data()});
  EXPECT_THAT(indexed, ElementsAre(0, 1, 2, 3));
}

// Breaks if a row of keys or values were another position's, or what is not chosen were seen.
TEST(IndexedAttention, IsThatOfTheChosenKeysAlone) {
  constexpr int64_t kHeads = 3;
  constexpr int64_t kDim = 20;
  constexpr int64_t kValueDim = 12;
  constexpr int64_t kFirst = 2;
  constexpr int64_t kTokens = 5;
  constexpr int64_t kSeen = 4;
  const AttentionShape shape{.n_heads = kHeads,
                             .n_kv_heads = kHeads,
                             .head_dim = kDim,
                             .scale = 0.3F,
                             .own_value_dim = kValueDim};
  const auto q = Random(1).floats(kTokens * kHeads * kDim);
  const auto k = Random(2).floats((kFirst + kTokens) * kHeads * kDim, 3.0F);
  const auto v = Random(3).floats((kFirst + kTokens) * kHeads * kValueDim);
  // The first two see all, the others four.
  const std::vector<int32_t> indexed = {0, 1, 2, -1, 0, 1, 2, 3, 0, 1,
                                        3, 4, 1, 2,  4, 5, 0, 2, 3, 6};
  ThreadPool pool(2);
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    std::vector<float> stored_k(k.size());
    std::vector<float> stored_v(v.size());
    const auto reference = make_reference_kernels();
    reference->run(StoreKvCall{k.data(), type, std::ssize(k), stored_k.data()});
    reference->run(StoreKvCall{v.data(), type, std::ssize(v), stored_v.data()});
    std::vector<float> expected(kTokens * kHeads * kValueDim);
    AttentionCall call{q.data(), {type, stored_k.data(), stored_v.data()},
                       shape,    kFirst,
                       kTokens,  expected.data()};
    call.indexed = indexed.data();
    call.n_indexed = kSeen;
    reference->run(call);
    for (const Math math : {Math::kExact, Math::kFast}) {
      std::vector<float> got(expected.size());
      call.out = got.data();
      make_cpu_kernels(pool, best_instruction_set(), math)->run(call);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << i;
    }
    // A query that sees the four first, as if there were no more.
    std::vector<float> dense(kHeads * kValueDim);
    AttentionCall alone = call.part(1, 1);
    alone.indexed = nullptr;
    alone.out = dense.data();
    reference->run(alone);
    EXPECT_TRUE(std::equal(dense.begin(), dense.end(), expected.begin() + kHeads * kValueDim));
  }
}

}  // namespace
}  // namespace assay
