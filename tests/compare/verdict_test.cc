// The status of a record follows from its metrics, and the verdict on two logs from their
// records.
#include "assay/compare/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace assay {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

class JudgeRecord : public testing::Test {
 protected:
  JudgeRecord() {
    metrics_.n = metrics_.compared = 100;
    metrics_.ref_rms = 1;
    metrics_.facts.all_values = metrics_.facts.head = true;
  }

  RecordResult judge(const SelfConsistency& soundness = {}) const {
    RecordResult result;
    result.metrics = metrics_;
    judge_record(tolerance_, options_, soundness, result);
    // A verdict and the evidence never contradict each other.
    EXPECT_EQ(result.failed(), result.failing_metric != Metric::kNone);
    if (result.failed()) {
      EXPECT_TRUE(result.status == Verdict::kWrong || result.status == Verdict::kTieFlip);
    }
    return result;
  }

  void set_argmax(int64_t ref, int64_t got, double regret) {
    metrics_.is_logits = true;
    metrics_.argmax_ref = ref;
    metrics_.argmax_got = got;
    metrics_.regret = regret;
  }

  Metrics metrics_;
  Tolerance tolerance_{1e-2, {}, {}, {}};
  CompareOptions options_;
};

TEST_F(JudgeRecord, EqualMatchesAndWithinToleranceIsNoise) {
  metrics_.identical = true;
  EXPECT_EQ(judge().status, Verdict::kMatch);
  EXPECT_EQ(judge().evidence, Evidence::kWhole);
  metrics_.identical = false;
  metrics_.rel_l2 = 1e-2;
  EXPECT_EQ(judge().status, Verdict::kNoise) << "at the limit";
  EXPECT_EQ(judge().evidence, Evidence::kWhole);
}

// Breaks if a limit were not held, if NaN were within it, or if a failure named another metric.
TEST_F(JudgeRecord, EnforcesEachLimit) {
  tolerance_ = {1e-2, 0.5, 0.1, 1e-6};
  metrics_.rel_l2 = 1e-2;
  metrics_.max_abs_lower_bound = 0.5;
  metrics_.max_abs = 0.4;
  metrics_.kl = 0.1;
  EXPECT_FALSE(judge().failed());
  const Metrics good = metrics_;
  for (const double bad : {0.7, kNoNumber, HUGE_VAL}) {
    const auto expect_failure = [&](Metric metric, double tolerance) {
      const RecordResult result = judge();
      EXPECT_EQ(result.evidence, Evidence::kFailed) << bad;
      EXPECT_EQ(result.status, Verdict::kWrong) << bad;
      EXPECT_EQ(result.failing_metric, metric) << bad;
      EXPECT_EQ(result.failing_tolerance, tolerance) << bad;
      EXPECT_TRUE(result.failing_value == bad || std::isnan(bad)) << result.failing_value;
      metrics_ = good;
    };
    metrics_.rel_l2 = bad;
    expect_failure(Metric::kRelL2, 1e-2);
    metrics_.max_abs_lower_bound = bad;
    expect_failure(Metric::kMaxAbs, 0.5);
    metrics_.kl = bad;
    expect_failure(Metric::kKl, 0.1);
    metrics_.rel_l2 = metrics_.max_abs_lower_bound = bad;
    metrics_.kl = bad;
    expect_failure(Metric::kRelL2, 1e-2);
  }
}

// Breaks if reports showed another limit than the one that was held.
TEST_F(JudgeRecord, ReportsTheLimitThatApplied) {
  tolerance_ = {0.01, 0.5, 0.1, 1e-6};
  EXPECT_EQ(judge().tolerance, 0.01);
  EXPECT_EQ(judge().rel_l2_limit, 0.01);
  EXPECT_EQ(judge().floor, 1e-6);
  tolerance_.rel_l2.reset();
  EXPECT_EQ(judge().tolerance, 0.5);
  EXPECT_FALSE(judge().rel_l2_limit);
  tolerance_.max_abs.reset();
  EXPECT_EQ(judge().tolerance, 0.1);
}

// Breaks if a reference that contradicts itself hid a NaN of the engine, or judged it otherwise.
TEST_F(JudgeRecord, SelfContradictingReferenceProvesNothing) {
  const SelfConsistency unsound{.ref = false, .got_contradiction = {}};
  metrics_.rel_l2 = 0.7;
  const RecordResult result = judge(unsound);
  EXPECT_EQ(result.evidence, Evidence::kUnproven);
  EXPECT_EQ(result.status, Verdict::kIncomplete);
  EXPECT_EQ(result.reason, "the reference contradicts itself there");
  metrics_.nonfinite = 3;
  const RecordResult nan = judge(unsound);
  EXPECT_EQ(nan.failing_metric, Metric::kNonfinite);
  EXPECT_EQ(nan.failing_value, 3);
}

// Breaks if two statements of which one is right passed because that one is near.
TEST_F(JudgeRecord, SelfContradictingJudgedRecordFails) {
  const SelfConsistency unsound{.ref = true, .got_contradiction = "its sketch and its values"};
  const RecordResult result = judge(unsound);
  EXPECT_EQ(result.failing_metric, Metric::kContradiction);
  EXPECT_EQ(result.reason, "its sketch and its values");
  metrics_.rel_l2 = 0.7;
  const RecordResult far = judge(unsound);
  EXPECT_EQ(far.failing_metric, Metric::kRelL2) << "the first failure is reported";
  EXPECT_EQ(far.reason, "its sketch and its values") << "and so is the contradiction";
}

TEST_F(JudgeRecord, NothingIsLeftOfRecordsThatWereCut) {
  metrics_.cut = true;
  EXPECT_FALSE(judge().failed());
  metrics_.facts = {};
  EXPECT_EQ(judge().failing_metric, Metric::kRelL2);
}

TEST_F(JudgeRecord, PartSufficesUnlessTheWholeIsRequired) {
  metrics_.facts = {.head = true};
  EXPECT_EQ(judge().evidence, Evidence::kPartial);
  EXPECT_EQ(judge().status, Verdict::kNoise);
  options_.whole_required = true;
  EXPECT_EQ(judge().evidence, Evidence::kUnproven);
  EXPECT_EQ(judge().status, Verdict::kIncomplete);
  EXPECT_NE(judge().reason, "");
}

// Breaks if zeros on both sides counted as a match.
TEST_F(JudgeRecord, ZerosAreInconclusive) {
  metrics_.all_zero = metrics_.identical = true;
  EXPECT_EQ(judge().status, Verdict::kInconclusive);
}

TEST_F(JudgeRecord, FlipBetweenTiedCandidatesIsATie) {
  metrics_.observed_error = 0.03;
  set_argmax(1, 2, 0.02);
  EXPECT_EQ(judge().status, Verdict::kTieFlip);
  EXPECT_FALSE(judge().failed());
  options_.strict_argmax = true;
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax);
  EXPECT_EQ(judge().failing_tolerance, 0);
  options_.strict_argmax = false;
  set_argmax(1, 2, 0.031);
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax) << "further apart than the values are off";
  EXPECT_EQ(judge().failing_value, 0.031);
  EXPECT_EQ(judge().failing_tolerance, 0.03);
  set_argmax(1, 1, kNoNumber);
  EXPECT_FALSE(judge().failed()) << "the same choice";
}

// Breaks if one large error let any two candidates count as level.
TEST_F(JudgeRecord, TieMarginIsBoundedByTheTolerance) {
  metrics_.observed_error = 10;
  set_argmax(1, 2, 0.05);  // four times rel_l2 of the root mean square is 0.04
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax);
  EXPECT_NEAR(judge().failing_tolerance, 0.04, 1e-12);
  tolerance_ = {{}, 0.06, {}, {}};
  EXPECT_EQ(judge().status, Verdict::kTieFlip);
  metrics_.regret = kNoNumber;
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax) << "a regret that is not known is not small";
  metrics_.regret.reset();
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax);
  metrics_.min_regret = 0.07;
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax);
}

// Breaks if a token that the reference does not list counted as level with its choice because it is
// only known to be no better than those that are listed.
TEST_F(JudgeRecord, ALowerBoundOfTheRegretProvesNoTie) {
  metrics_.observed_error = 10;
  set_argmax(1, 2, 0);
  metrics_.regret.reset();
  metrics_.min_regret = 0.001;
  EXPECT_EQ(judge().status, Verdict::kTieFlip) << "the difference of whole tensors bounds it";
  metrics_.facts = {.summary = true, .top = true};
  const RecordResult result = judge();
  EXPECT_FALSE(result.failed());
  EXPECT_EQ(result.evidence, Evidence::kUnproven);
  EXPECT_EQ(result.status, Verdict::kIncomplete);
  EXPECT_THAT(std::string(result.reason), testing::HasSubstr("does not list the other's"));
}

// Breaks if the token that the reference chooses could be cut away.
TEST_F(JudgeRecord, ArgmaxBeyondTheCommonElementsFails) {
  set_argmax(100, 5, 0);
  EXPECT_EQ(judge().failing_metric, Metric::kArgmax);
  set_argmax(99, 99, 0);
  EXPECT_FALSE(judge().failed());
}

TEST(FailRecord, KeepsTheFirstFailure) {
  RecordResult result = failed_result(Metric::kSize, 5, 4);
  fail_record(Metric::kKl, 1, 0.1, result);
  EXPECT_EQ(result.failing_metric, Metric::kSize);
  EXPECT_EQ(result.failing_value, 5);
  EXPECT_EQ(result.failing_tolerance, 4);
  EXPECT_EQ(result.status, Verdict::kWrong);
  EXPECT_TRUE(result.failed());
  const Metrics& m = result.metrics;
  for (const double value : {m.max_abs, m.mean_abs, m.rms, m.rel_l2, m.cosine, m.nmse,
                             m.observed_error, m.max_abs_lower_bound}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

// Results of checkpoints in the order of the network, each within 1e-2 or failed.
class JudgeComparison : public testing::Test {
 protected:
  enum Checkpoint : int32_t { kEmbedding, kLayer0, kLayer1, kLayer2, kLogitsId };

  JudgeComparison() {
    for (const char* name :
         {"embedding", "layer_0_output", "layer_1_output", "layer_2_output", "logits"}) {
      comparison_.checkpoints.push_back(parse_checkpoint_name(name));
      comparison_.order.push_back(std::ssize(comparison_.order));
    }
  }

  RecordResult& add(Checkpoint checkpoint, int64_t token_idx, double rel_l2) {
    RecordResult result;
    result.metrics.n = 10;
    result.metrics.facts.all_values = true;
    result.metrics.rel_l2 = rel_l2;
    judge_record({1e-2, {}, {}, {}}, {}, {}, result);
    result.checkpoint = checkpoint;
    result.token_idx = token_idx;
    return comparison_.results.emplace_back(result);
  }

  RecordResult& add_zeros(Checkpoint checkpoint, int64_t token_idx) {
    RecordResult& result = add(checkpoint, token_idx, 0);
    result.metrics.all_zero = true;
    result.status = Verdict::kInconclusive;
    return result;
  }

  std::vector<Verdict> statuses() {
    judge_comparison(comparison_);
    std::vector<Verdict> all;
    for (const RecordResult& result : comparison_.results) all.push_back(result.status);
    return all;
  }

  Verdict verdict() {
    judge_comparison(comparison_);
    return comparison_.verdict;
  }

  Comparison comparison_;
};

TEST_F(JudgeComparison, GradualErrorIsDrift) {
  add(kLayer0, 0, 5e-3);
  add(kLayer1, 0, 4.9e-2);  // less than ten times the one before
  add(kLayer2, 0, 0.48);
  EXPECT_THAT(statuses(), testing::ElementsAre(Verdict::kNoise, Verdict::kDrift, Verdict::kDrift));
  EXPECT_EQ(comparison_.verdict, Verdict::kDrift);
  EXPECT_FALSE(comparison_.pass);
  EXPECT_EQ(comparison_.failed, 2);
}

TEST_F(JudgeComparison, SuddenErrorIsWrongAndSoIsWhatFollows) {
  add(kLayer0, 0, 1e-3);
  add(kLayer1, 0, 2.6e-2);  // more than ten times a quarter of the tolerance
  add(kLayer2, 0, 2.7e-2);
  add(kLayer0, 1, 0.09);  // another token: nothing is before it
  add(kLayer1, 1, 0.51);
  EXPECT_THAT(statuses(), testing::ElementsAre(Verdict::kNoise, Verdict::kWrong, Verdict::kWrong,
                                               Verdict::kDrift, Verdict::kWrong));
  EXPECT_EQ(comparison_.verdict, Verdict::kWrong);
}

TEST_F(JudgeComparison, SmallErrorAtTheFirstCheckpointIsDrift) {
  add(kEmbedding, 0, 0.02);
  add(kLayer0, 1, 0.1);
  add(kLayer0, 2, 0.11);
  EXPECT_THAT(statuses(), testing::ElementsAre(Verdict::kWrong, Verdict::kDrift, Verdict::kWrong));
}

// Breaks if what is no error of rounding could be called one.
TEST_F(JudgeComparison, NaNDistanceIsNeverDrift) {
  for (const Metric metric : {Metric::kNonfinite, Metric::kContradiction, Metric::kSize}) {
    comparison_.results.clear();
    add(kLayer0, 0, 5e-3);
    RecordResult& result = add(kLayer1, 0, 6e-3);
    fail_record(metric, metric == Metric::kSize ? 3 : kNoNumber, 0, result);
    if (metric == Metric::kSize) result.metrics.rel_l2 = kNoNumber;
    EXPECT_EQ(statuses()[1], Verdict::kWrong) << metric_name(metric);
  }
}

TEST_F(JudgeComparison, OneFailedRecordFailsTheComparison) {
  add(kLayer0, 0, 1e-3);
  add(kLayer1, 0, 1e-3).evidence = Evidence::kUnproven;
  EXPECT_EQ(verdict(), Verdict::kIncomplete);
  EXPECT_FALSE(comparison_.pass);
  add(kLayer2, 0, 0.9);
  EXPECT_EQ(verdict(), Verdict::kWrong) << "not incomplete: what failed is known";
  EXPECT_FALSE(comparison_.pass);
}

// Breaks if a record that is nowhere passed.
TEST_F(JudgeComparison, UnexcusedGapIsIncomplete) {
  add(kLayer0, 0, 0);
  comparison_.gaps.push_back({kLayer1, 0, Evidence::kExcused, "accepted"});
  EXPECT_EQ(verdict(), Verdict::kNoise);
  EXPECT_TRUE(comparison_.pass);
  EXPECT_EQ(comparison_.evidence.excused, 1);
  comparison_.gaps[0].evidence = Evidence::kUnproven;
  EXPECT_EQ(verdict(), Verdict::kIncomplete);
  EXPECT_FALSE(comparison_.pass);
}

// Breaks if zeros proved anything, or spoiled what was proved beside them.
TEST_F(JudgeComparison, ZerosCountOnlyWithoutOtherRecords) {
  add_zeros(kLayer0, 0);
  EXPECT_EQ(verdict(), Verdict::kInconclusive);
  EXPECT_FALSE(comparison_.pass);
  comparison_.gaps.push_back({kLayer1, 0, Evidence::kUnproven, "missing"});
  EXPECT_EQ(verdict(), Verdict::kIncomplete) << "something is missing, too";
  comparison_.gaps.clear();
  add(kLayer1, 0, 1e-3);
  EXPECT_EQ(verdict(), Verdict::kNoise);
  EXPECT_TRUE(comparison_.pass);
}

// Breaks if a NaN in a checkpoint that only the judged log has passed.
TEST_F(JudgeComparison, FailingExtraRecordFailsTheComparison) {
  add(kLayer0, 0, 0);
  RecordResult alone = failed_result(Metric::kNonfinite, 1, 0);
  alone.of_ref = false;
  alone.checkpoint = kLayer1;
  comparison_.results.push_back(alone);
  EXPECT_EQ(verdict(), Verdict::kWrong);
  EXPECT_FALSE(comparison_.pass);
  EXPECT_EQ(comparison_.compared, 1);
  EXPECT_EQ(comparison_.failed, 1);
}

TEST_F(JudgeComparison, FirstDivergenceIsTheFirstFailedRecord) {
  add(kLayer0, 0, 1e-3);
  EXPECT_EQ(verdict(), Verdict::kNoise);
  EXPECT_FALSE(comparison_.first_divergence);
  add(kLayer1, 0, 0.2).floor = 1e-6;
  add(kLayer2, 0, 0.9);
  judge_comparison(comparison_);
  ASSERT_TRUE(comparison_.first_divergence);
  EXPECT_EQ(comparison_.first_divergence->checkpoint.name, "layer_1_output");
  EXPECT_EQ(comparison_.first_divergence->metric, Metric::kRelL2);
  EXPECT_EQ(comparison_.first_divergence->value, 0.2);
  EXPECT_EQ(comparison_.first_divergence->tolerance, 1e-2);
  EXPECT_EQ(comparison_.first_divergence->floor, 1e-6);
}

TEST_F(JudgeComparison, CountsTheArgmaxesThatBothState) {
  for (const int64_t choice : {4, 4, 5}) {
    Metrics& metrics = add(kLogitsId, choice, 0).metrics;
    metrics.argmax_ref = 4;
    metrics.argmax_got = choice;
  }
  add(kLogitsId, 9, 0).metrics.argmax_ref = 4;
  Metrics& layer = add(kLayer0, 10, 0).metrics;
  layer.argmax_ref = layer.argmax_got = 4;
  judge_comparison(comparison_);
  EXPECT_EQ(comparison_.argmax_total, 3);
  EXPECT_EQ(comparison_.argmax_agree, 2);
  EXPECT_EQ(comparison_.evidence.argmax_known, 3);
  EXPECT_EQ(comparison_.evidence.argmax_total, 4);
}

}  // namespace
}  // namespace assay
