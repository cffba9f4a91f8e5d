#include "assay/compare/analysis.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "tests/compare/log_files.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

class AnalysisTest : public LogFiles {};

TEST_F(AnalysisTest, CountsAndDescribes) {
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("logits", 0, {1, -1, 3}) + line("logits", 1, {0, 0, 5}) +
                                     line("embedding", 0, {std::nanf(""), 2})));
  EXPECT_EQ(analysis.records, 3);
  EXPECT_EQ(analysis.tokens, 2);
  ASSERT_EQ(analysis.stats.size(), 2U);
  EXPECT_EQ(analysis.stats[0].checkpoint.name, "embedding");
  EXPECT_EQ(analysis.stats[0].nonfinite, 1);
  EXPECT_EQ(analysis.stats[0].mean, 2);
  EXPECT_EQ(analysis.stats[1].min, -1);
  EXPECT_EQ(analysis.stats[1].max, 5);
  EXPECT_EQ(analysis.stats[1].zeros, 2);
  EXPECT_DOUBLE_EQ(analysis.stats[1].mean, 8.0 / 6);
  EXPECT_DOUBLE_EQ(analysis.stats[1].rms, std::sqrt(36.0 / 6));
  EXPECT_EQ(analysis.garbage_tokens, 1);
  EXPECT_EQ(analysis.garbage_rate, 0.5);
  EXPECT_EQ(analysis.positions.at(0), 1);
}

// Breaks if a record of a whole sequence counted as one of a single token: then one garbage value
// made all tokens garbage, at an index beyond the tensor's width.
TEST_F(AnalysisTest, RecordsOfWholeSequencesAreOneOfEachToken) {
  const auto sequence = [](const std::string& checkpoint, const std::string& shape,
                           const std::string& more = "") {
    return R"({"checkpoint":")" + checkpoint + R"(","token_idx":4,"dtype":"f32","shape":)" + shape +
           R"(,"values":[1,2,"NaN",-2,0.5,7])" + more + "}\n";
  };
  const Analysis analysis =
      analyze_log(put("a.jsonl", sequence("layer_0_q", "[3,2]") + sequence("embedding", "[3,2]")));
  EXPECT_EQ(analysis.records, 6);
  EXPECT_EQ(analysis.tokens, 3);
  EXPECT_EQ(analysis.garbage_tokens, 1);
  ASSERT_FALSE(analysis.garbage.empty());
  EXPECT_EQ(analysis.garbage[0].token_idx, 5);
  EXPECT_EQ(analysis.garbage[0].garbage.index, 0);
  // Heads of one token, by its dims or for lack of anything else.
  EXPECT_EQ(analyze_log(put("b.jsonl", sequence("layer_0_q", "[3,2]"))).records, 1);
  const std::string heads = sequence("layer_0_q", "[3,2]", R"(,"dims":"heads d")");
  EXPECT_EQ(analyze_log(put("c.jsonl", heads + sequence("logits", "[3,2]"))).records, 4);
  EXPECT_EQ(analyze_log(put("d.jsonl", sequence("own name", "[3,2]", R"(,"dims":"t h")"))).records,
            3);
  // What the record says of all its rows is held to them.
  const Analysis wrong = analyze_log(
      put("e.jsonl", sequence("embedding", "[3,2]",
                              R"(,"summary":{"min":-2,"max":2,"mean":0,"l2":3,"nonfinite":0})")));
  ASSERT_EQ(wrong.suspicions.size(), 1U);
  EXPECT_EQ(wrong.suspicions[0].kind, SuspicionKind::kContradiction);
}

// Pointers whose low half happens to be a small number are known by those of other records.
TEST_F(AnalysisTest, FindsHeapPointersBySharedHighBits) {
  const std::vector<float> rest = {3, -2, 4, 1, 5, -6, 2, 8};
  const auto record = [&](int token, float first) {
    std::vector<float> values = {first, 0};
    values.insert(values.end(), rest.begin(), rest.end());
    return line("logits", token, values);
  };
  const Analysis analysis = analyze_log(
      put("a.jsonl", record(0, -46583.378906F) + record(1, -46580.9F) + record(2, 1.5F)));
  EXPECT_EQ(analysis.garbage_tokens, 2);
}

TEST_F(AnalysisTest, AllNaNTensorIsCountedInFullButListedInPart) {
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("q", 0, std::vector<float>(1000, std::nanf("")))));
  EXPECT_EQ(analysis.garbage_values, 1000);
  EXPECT_EQ(analysis.garbage.size(), static_cast<size_t>(kMaxListed));
}

// Breaks if such counts went beyond 64 bits: -2 garbage values were reported.
TEST_F(AnalysisTest, SummaryCountsSaturate) {
  const std::string most = std::to_string(std::numeric_limits<int64_t>::max());
  const std::string more = ",\"n\":" + most + R"(,"summary":{"nonfinite":)" + most + "}";
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("q", 0, {1}, more) + line("q", 1, {1}, more) +
                                     line("q", 2, {std::nanf("")})));
  EXPECT_EQ(analysis.garbage_values, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(analysis.garbage_by_reason.at(GarbageReason::kNonfinite), analysis.garbage_values);
  EXPECT_EQ(analysis.stats.at(0).garbage, analysis.garbage_values);
}

// Held to numpy's median and percentiles.
TEST_F(AnalysisTest, RobustStatisticsAreNumpys) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
  std::mt19937 random(3);
  std::cauchy_distribution<float> wild(1, 2);
  std::string log;
  std::string list;
  for (int token = 0; token < 7; ++token) {
    std::vector<float> values(101);
    for (float& value : values) {
      value = wild(random);
      list += fmt::format("{:.9g},", value);
    }
    log += line("q", token, values);
  }
  const CheckpointStats stats = analyze_log(put("a.jsonl", log)).stats.at(0);
  const auto [code, text] = run_program(
      {python, "-c",
       "import numpy as np\na = np.array([" + list +
           "], np.float32).astype(float)\n"
           "m = np.median(a)\n"
           "print(repr([float(x) for x in (m, np.median(abs(a - m)), np.percentile(a, 1), "
           "np.percentile(a, 99), a.mean(), np.sqrt((a * a).mean()), a.min(), a.max())]))"});
  ASSERT_EQ(code, 0) << text;
  std::vector<double> want;
  std::istringstream numbers(text.substr(1));
  for (double number = 0; numbers >> number; numbers.ignore(1)) want.push_back(number);
  const std::vector<double> got = {stats.median, stats.mad, stats.p01, stats.p99,
                                   stats.mean,   stats.rms, stats.min, stats.max};
  ASSERT_EQ(want.size(), got.size()) << text;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-12 * std::abs(want[i])) << i;
  }
  EXPECT_FALSE(stats.sampled);
}

// A sample stands for what is too large to be sorted.
TEST_F(AnalysisTest, LargeCheckpointsAreSampled) {
  std::string log;
  for (int token = 0; token < 20; ++token) {
    std::vector<float> values(10000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    values[0] = static_cast<float>(token);
    log += line("q", token, values);
  }
  const CheckpointStats stats = analyze_log(put("a.jsonl", log)).stats.at(0);
  EXPECT_TRUE(stats.sampled);
  // The standard error of the median of 65,536 uniform values is 0.2 % of their range.
  EXPECT_NEAR(stats.median, 5000, 100);
  EXPECT_NEAR(stats.p99, 9900, 30);
}

TEST_F(AnalysisTest, RejectsAnEmptyLog) {
  const std::string path = put("a.jsonl", "\n");
  EXPECT_THAT(error_of([&] { analyze_log(path); }), testing::HasSubstr("holds no records"));
}

// Breaks if attention whose weight is all but on one token, as transformers computes it in bfloat16
// for a tiny MiniCPM3, were a buffer that was written in part, and what follows from it one that
// was not written again.
TEST_F(AnalysisTest, RoundingMayLeaveTheSameOfNearlyTheSame) {
  std::vector<float> attended;
  for (int i = 0; i < 64; ++i) attended.push_back(static_cast<float>(i % 13) - 5.5F);
  attended.back() = -0.014099121F;
  std::vector<float> next = attended;
  next.back() = -0.014160156F;
  std::vector<float> product;
  for (int i = 0; i < 64; ++i) product.push_back(static_cast<float>(i % 7) * 0.5F - 1.25F);
  const auto found = [&](const std::vector<float>& second) {
    std::vector<SuspicionKind> kinds;
    const Analysis analysis = analyze_log(
        put("a.jsonl", line("layer_0_attn", 0, attended) + line("layer_0_attn_out", 0, product) +
                           line("layer_0_attn", 1, second) + line("layer_0_attn_out", 1, product)));
    for (const Suspicion& one : analysis.suspicions) kinds.push_back(one.kind);
    return kinds;
  };
  EXPECT_THAT(found(next), IsEmpty());
  next.back() = 3;
  EXPECT_THAT(found(next), UnorderedElementsAre(SuspicionKind::kStale, SuspicionKind::kRepeat));
}

}  // namespace
}  // namespace assay
