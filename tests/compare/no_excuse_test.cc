// What once excused a wrong engine: its own large error, its own summary, its own logits, a
// mistyped name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NoExcuseTest : public ComparisonTest {
 protected:
  static std::vector<float> waves(int n, int seed = 0) {
    std::vector<float> values;
    for (int i = 0; i < n; ++i) values.push_back(std::sin(static_cast<float>(i * 7 + seed * 131)));
    return values;
  }
  // Logits with 14 at 7 and with this at 500.
  static std::vector<float> peaks(float second) {
    std::vector<float> logits = waves(20000);
    logits[7] = 14;
    logits[500] = second;
    return logits;
  }
};

// Breaks if the error of the logit that was chosen wrongly counted as noise.
TEST_F(NoExcuseTest, OneWrongLogitIsNoTie) {
  std::vector<float> ref = peaks(13.6F);
  std::vector<float> got = peaks(14.5F);
  EXPECT_EQ(verdict(ref, got), Verdict::kDrift);
  got[9] += 0.42F;
  EXPECT_EQ(verdict(ref, got), Verdict::kTieFlip) << "others are as far off";
  got[9] = ref[9];
  ref[500] = 13.99F;
  got[500] = 14.01F;
  EXPECT_EQ(verdict(ref, got), Verdict::kTieFlip) << "the tolerance allows it of each element";
}

TEST_F(NoExcuseTest, AWrongLogitDoesNotLeaveOutWhatIsGeneratedAfterIt) {
  const std::vector<float> ref = peaks(13.6F);
  const std::vector<float> got = peaks(14.5F);
  const auto log = [&](const std::vector<float>& logits, int seed) {
    return line("embedding", 0, waves(64)) + line("logits", 0, logits) +
           line("embedding", 1, waves(64, seed)) + line("logits", 1, waves(64, seed));
  };
  EXPECT_EQ(compare(log(ref, 1), log(got, 2)).first_divergence->metric, "argmax");
}

TEST_F(NoExcuseTest, TheGenerationsPartWhateverThePolicyLimits) {
  options_.policy = Policy::from_file(put("abs.json", R"({"default":{"max_abs":1e-3}})"));
  const auto log = [&](float a, float b, int seed) {
    return line("embedding", 0, waves(64)) + line("logits", 0, {1, a, b, -3, 1 + (a - 6)}) +
           line("embedding", 1, waves(64, seed)) + line("logits", 1, waves(5, seed));
  };
  const Comparison comparison = compare(log(6, 6 - 1e-6F, 1), log(6 - 1e-6F, 6, 2));
  EXPECT_TRUE(comparison.pass);
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 1);
}

TEST_F(NoExcuseTest, ASummaryOfNaNIsNoMatch) {
  const auto log = [&](const std::string& summary) {
    return line("layer_0_output", 3, waves(10),
                ",\"n\":896,\"summary\":{" + summary + ",\"nonfinite\":0}");
  };
  const std::string ref = log(R"("min":-1,"max":1,"mean":0.1,"l2":20)");
  EXPECT_TRUE(compare(ref, ref).pass);
  for (const std::string bad :
       {R"("min":-1,"max":1,"mean":0.1,"l2":"NaN")", R"("min":-1,"max":1,"mean":NaN,"l2":20)",
        R"("min":"NaN","max":"NaN","mean":"NaN","l2":"NaN","nan":0)",
        R"("min":-1,"max":"Infinity","mean":0.1,"l2":20)"}) {
    EXPECT_EQ(compare(ref, log(bad)).verdict, Verdict::kWrong) << bad;
    EXPECT_EQ(compare(log(bad), ref).verdict, Verdict::kWrong) << bad;
    EXPECT_EQ(compare(line("layer_0_output", 3, waves(10), ",\"n\":896"), log(bad)).verdict,
              Verdict::kWrong)
        << bad;
  }
  // What a summary leaves out is not known, and of no elements there is nothing to tell.
  EXPECT_TRUE(compare(log(R"("l2":20)"), log(R"("mean":0.1)")).pass);
}

TEST_F(NoExcuseTest, InfinitiesThatTheOtherCannotConfirmAreNotFinite) {
  const std::string counts = ",\"n\":896,\"summary\":{\"l2\":20,\"nonfinite\":5,\"nan\":0}";
  const auto plain = [&](const char* name) { return line(name, 0, waves(10), ",\"n\":896"); };
  const auto counted = [&](const char* name) { return line(name, 0, waves(10), counts); };
  EXPECT_EQ(compare(plain("layer_0_output"), counted("layer_0_output")).verdict, Verdict::kWrong);
  EXPECT_TRUE(compare(counted("layer_0_output"), counted("layer_0_output")).pass);
  EXPECT_TRUE(compare(plain("logits"), counted("logits")).pass) << "padding";
}

TEST_F(NoExcuseTest, WhatOnlyTheJudgedLogitsHaveCounts) {
  const std::vector<float> ref = waves(1000);
  std::vector<float> got = ref;
  got.resize(1024, -1);
  EXPECT_EQ(verdict(ref, got), Verdict::kMatch);
  got[1005] = 50;
  const Comparison chosen = compare(line("logits", 0, ref), line("logits", 0, got));
  EXPECT_EQ(chosen.first_divergence->metric, "argmax");
  EXPECT_EQ(chosen.results[0].metrics.argmax_got, 1005);
  got[1005] = NAN;
  EXPECT_EQ(verdict(ref, got), Verdict::kWrong);
  EXPECT_EQ(verdict(got, ref), Verdict::kWrong);
}

TEST_F(NoExcuseTest, NaNOfBothIsTold) {
  std::vector<float> values = waves(100);
  values[50] = NAN;
  const std::string log = line("embedding", 0, values);
  const Comparison comparison = compare(log, log);
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.quarantined, 2);
}

TEST_F(NoExcuseTest, EqualInfinitiesHaveNoDivergence) {
  std::vector<float> logits = waves(100);
  logits[50] = INFINITY;
  options_.policy = Policy::from_file(put("kl.json", R"({"default":{"rel_l2":1e-2,"kl":1e-3}})"));
  const Comparison comparison = compare(line("logits", 0, logits), line("logits", 0, logits));
  EXPECT_TRUE(comparison.pass);
  EXPECT_FALSE(comparison.results[0].metrics.kl);
}

// What norms of 32-bit sums differ by.
TEST_F(NoExcuseTest, ANormOfFloatsIsTheSame) {
  options_.policy = Policy::from_file(put("tight.json", R"({"default":{"rel_l2":1.8e-7}})"));
  const auto log = [&](double l2) {
    return line("layer_0_output", 0, waves(10),
                fmt::format(",\"n\":896,\"summary\":{{\"l2\":{}}}", l2));
  };
  EXPECT_TRUE(compare(log(20), log(20 * (1 + 3e-7))).pass);
  EXPECT_FALSE(compare(log(20), log(20 * (1 + 3e-6))).pass);
}

TEST_F(NoExcuseTest, AMistypedNameIsTold) {
  const std::string log = line("layer_1_q", 0, waves(9)) + line("layer_1_v", 0, waves(9));
  options_.selection.set_checkpoints("layer_1_v,layr_1_q", "--checkpoints");
  EXPECT_THAT(failure(log, log),
              HasSubstr("--checkpoints: neither log has a checkpoint 'layr_1_q'"));
  options_.selection = {};
  options_.selection.set_checkpoints("layer_1_v,layers", "--checkpoints");
  EXPECT_TRUE(compare(log, log).pass) << "a set names none";
  options_.selection = {};
  options_.policy = Policy::from_file(
      put("policy.json", R"({"checkpoints":{"layer_1_*":{"rel_l2":1},"typo*":{"rel_l2":1}}})"));
  EXPECT_THAT(compare(log, log).warnings,
              ElementsAre("no checkpoint of either log is 'typo*', of which the policy has a "
                          "tolerance"));
}

TEST_F(NoExcuseTest, TokensThatWereNotComparedAreTold) {
  std::string ref;
  for (int token = 0; token < 9; ++token) {
    ref += line("embedding", token, waves(64, token)) + line("layer_0_output", token, waves(64));
  }
  const std::string got = line("embedding", 0, waves(64)) + line("layer_0_output", 0, waves(64));
  EXPECT_THAT(compare(ref, got).warnings,
              ElementsAre(HasSubstr("has no record of 8 of the reference's 9 tokens, the first at "
                                    "1: they were not compared")));
  EXPECT_THAT(compare(got, ref).warnings, IsEmpty());
}

TEST_F(NoExcuseTest, NamesOfAnotherEngineAreTold) {
  const auto log = [&](const char* name) {
    return line("embedding", 0, waves(64)) + line(name, 0, waves(64, 1));
  };
  EXPECT_THAT(compare(log("layer_0_output"), log("l_out-0")).warnings,
              ElementsAre(HasSubstr("look like those of llama.cpp: give --map llama.cpp")));
  EXPECT_THAT(compare(log("layer_0_output"), log("first")).warnings,
              ElementsAre(testing::MatchesRegex(
                  "1 checkpoint of the reference, such as layer_0_output, is not in .*got.jsonl, "
                  "which has 1 of its own, such as first: where two are one tensor, give --map")));
  EXPECT_THAT(compare(log("layer_0_output"), line("embedding", 0, waves(64))).warnings, IsEmpty())
      << "it only logs less";
}

TEST_F(NoExcuseTest, OtherModelFilesAreTold) {
  const auto log = [&](char digit, const char* type) {
    return fmt::format(
               R"({{"assay":1,"model":{{"name":"m","sha256":"{}","arch":"llama","type":"{}"}}}})",
               std::string(64, digit), type) +
           "\n" + line("embedding", 0, waves(64));
  };
  EXPECT_THAT(compare(log('a', "Q4_1"), log('b', "Q8_0")).warnings,
              ElementsAre("the logs are of different model files: m Q4_1 (aaaaaaaa…) and m Q8_0 "
                          "(bbbbbbbb…)"));
  EXPECT_THAT(compare(log('a', "Q4_1"), log('a', "Q4_1")).warnings, IsEmpty());
}

}  // namespace
}  // namespace assay
