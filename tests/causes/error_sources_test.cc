#include "assay/causes/error_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

// V of one position is wrong, which all later positions of the attention read.
class WrongValueOfOneToken : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kV || call.site.layer != 0) return;
    for (int64_t i = 0; i < call.w.rows; ++i) call.out[3 * call.w.rows + i] += 5;
  }
};

class ErrorSources : public FaultyLogs {
 protected:
  static constexpr double kMade = 0.01;
  static constexpr int64_t kHead = 10;

  // The judged log has `values` of each tensor, the reference all.
  Comparison judge(const std::string& model_name, Kernels& faulty, const std::string& checkpoints,
                   int64_t values, bool with_model = true) {
    const auto model = load(model_name);
    const auto right = make_reference_kernels();
    const std::string ref = log(*model, *right, "ref", checkpoints);
    const std::string got = log(*model, faulty, "got", checkpoints, values);
    return compare(with_model ? model.get() : nullptr, ref, got);
  }
};

// Breaks if a checkpoint were charged with what came in, where the judged log has heads: it was
// computed from the last checkpoint that is right, past others that are not.
TEST_F(ErrorSources, HeadsDoNotTurnWhatCameInIntoAnErrorOfItsOwn) {
  for (const char* checkpoints : {"layers", "ops"}) {
    Negated faulty(Checkpoint::kAttnOut, 0);
    const Comparison whole = judge("tinyllama", faulty, checkpoints, kAllValues);
    const Comparison heads = judge("tinyllama", faulty, checkpoints, kHead);
    std::map<std::string, double> made;
    for (const ErrorSource& source : whole.error_sources) {
      made[source.checkpoint.name] = source.own.value_or(0);
      EXPECT_FALSE(source.inputs_are_partial) << source.checkpoint.name;
    }
    ASSERT_GT(made.size(), 2U);
    ASSERT_EQ(heads.error_sources.size(), made.size());
    const std::string& first = heads.first_divergence->checkpoint.name;
    EXPECT_EQ(heads.error_sources[0].checkpoint.name, first);
    EXPECT_GT(heads.error_sources[0].own.value_or(0), kMade);
    EXPECT_LT(heads.error_sources[0].inherited.value_or(1), 1e-5);
    int unknown = 0;
    for (const ErrorSource& source : heads.error_sources) {
      const std::string& name = source.checkpoint.name;
      EXPECT_EQ(source.own.has_value(), !source.inputs_are_partial) << name;
      EXPECT_EQ(source.own.has_value(), source.inherited.has_value()) << name;
      unknown += source.own ? 0 : 1;
      if (name == first) continue;
      EXPECT_FALSE(source.own.value_or(0) > kMade) << checkpoints << " " << name;
      EXPECT_LT(made.at(name), kMade) << checkpoints << " " << name;
    }
    EXPECT_GT(unknown, 1) << checkpoints;
  }
}

// Breaks if attention were charged with what came in by an earlier position.
TEST_F(ErrorSources, AttentionReadsEarlierPositions) {
  for (const bool with_model : {true, false}) {
    WrongValueOfOneToken faulty;
    const Comparison comparison = judge("tinyllama", faulty, "ops", kHead, with_model);
    ASSERT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_v");
    for (const ErrorSource& source : comparison.error_sources) {
      if (source.checkpoint.name == "layer_0_v") continue;
      EXPECT_FALSE(source.own.value_or(0) > kMade) << with_model << source.checkpoint.name;
    }
  }
}

}  // namespace
}  // namespace assay
