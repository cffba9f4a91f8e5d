// A long prompt of which the first tokens are right: they refute mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "assay/causes/evidence.h"
#include "assay/causes/trial.h"
#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using causes::BoundMistake;
using mistakes::Matrix;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class EarlyTokens : public LogitsLogs {
 protected:
  // The values of the grid that are left where a tensor of ones is said to be `value(parameter)`.
  std::vector<double> left(std::vector<double> grid, bool refine,
                           const std::function<float(double parameter)>& value) {
    const Logits ones(2, std::vector<float>(8, 1));
    Logits other = ones;
    other[1].assign(8, 9);
    const Comparison comparison =
        compare(nullptr, log(ones, "ref", LogitsForm::kAll), log(other, "got", LogitsForm::kAll));
    causes::TensorStore store(comparison);
    const causes::Evidence evidence(store, "logits", {0});
    const std::vector<int64_t> at = {0};
    const causes::Trial trial{evidence, at, causes::one_by_one([&](double parameter) {
                                Matrix matrix(1, 8);
                                std::ranges::fill(matrix.values, value(parameter));
                                return matrix;
                              })};
    BoundMistake mistake;
    mistake.grid = std::move(grid);
    mistake.refine = refine;
    const auto found = left_of_grid(trial, mistake, 2);
    return found ? found->grid : std::vector<double>{-1};
  }
};

TEST_F(EarlyTokens, RefuteTheValuesThatChangeThem) {
  const auto plain = [](double parameter) { return static_cast<float>(parameter); };
  EXPECT_THAT(left({0, 0.6, 1, 1.4, 2}, false, plain), ElementsAre(0.6, 1, 1.4));
  EXPECT_THAT(left({3, 4}, false, plain), ElementsAre(-1)) << "nothing is left";
  EXPECT_THAT(left({}, false, [](double) { return 3.0F; }), ElementsAre(-1));
  EXPECT_THAT(left({}, false, [](double) { return 1.0F; }), ElementsAre());
  // What is not a number says nothing.
  EXPECT_THAT(left({3, 4}, false, [](double) { return std::numeric_limits<float>::quiet_NaN(); }),
              ElementsAre(3, 4));
}

// Between two values that are refuted there may be one that is not.
TEST_F(EarlyTokens, LeaveWhatIsBesideAValueThatMayBeRight) {
  const auto plain = [](double parameter) { return static_cast<float>(parameter); };
  EXPECT_THAT(left({-3, -1, 1, 3, 5}, true, plain), ElementsAre(-1, 1, 3));
  EXPECT_THAT(left({-4, -2, 0, 2, 4}, true, plain), ElementsAre(0, 2, 4)) << "1 is between";
  EXPECT_THAT(left({3, 4, 5}, true, plain), ElementsAre(-1));
}

// Turns positions from this one on as if they began anew.
class CountsAgain : public WrongKernels {
 public:
  static constexpr int64_t kFrom = 32;

 protected:
  void rope(RopeCall call) override {
    std::vector<float> table(call.cos_sin, call.cos_sin + call.n_tokens * call.rotary_dim);
    for (int64_t t = std::max<int64_t>(0, kFrom - call.site.first_position); t < call.n_tokens;
         ++t) {
      const int64_t as = call.site.first_position + t - kFrom;  // a position of the same call
      std::copy_n(call.cos_sin + as * call.rotary_dim, call.rotary_dim,
                  table.data() + t * call.rotary_dim);
    }
    call.cos_sin = table.data();
    right_->run(call);
  }
};

// Breaks if what is right were taken to refute a mistake that changes nothing there.
TEST_F(EarlyTokens, LeaveAMistakeThatBeginsLate) {
  const auto model = load("tinyllama");
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 34; ++i) tokens.push_back(1 + 37 * i % 250);
  const auto logits = [&](Kernels& kernels) {
    Session session(*model, kernels, {.capacity = 64});
    LogitsProbe probe;
    session.eval(tokens, &probe);
    return std::move(probe.rows);
  };
  CountsAgain kernels;
  const std::string ref = log(logits(*make_reference_kernels()), "ref", LogitsForm::kAll, tokens);
  const std::string got = log(logits(kernels), "got", LogitsForm::kAll, tokens);
  const Comparison comparison = compare(model.get(), ref, got, 1e-5);
  EXPECT_EQ(comparison.first_divergence->token_idx, CountsAgain::kFrom);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "rope_position");
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("counts from position 0 again at position"));
  EXPECT_THAT(comparison.causes_not_tried, SizeIs(0));
}

}  // namespace
}  // namespace assay
