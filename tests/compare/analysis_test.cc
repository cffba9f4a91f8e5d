#include "assay/compare/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

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

// Pointers whose low half happens to be a small number are known by those of other records.
TEST_F(AnalysisTest, PointersOfOneHeapAreKnownByTheirHighBits) {
  const std::vector<float> rest = {3, -2, 4, 1, 5, -6, 2, 8};
  const auto record = [&](int token, float first) {
    std::vector<float> values = {first, 0};
    values.insert(values.end(), rest.begin(), rest.end());
    return line("logits", token, values);
  };
  // All four share their 16 high bits; the last two are out of scale, the first is not.
  const Analysis analysis = analyze_log(
      put("a.jsonl", record(0, -46583.378906F) + record(1, -46580.9F) + record(2, 1.5F)));
  EXPECT_EQ(analysis.garbage_tokens, 2);
}

TEST_F(AnalysisTest, ATensorOfNaNIsListedInPartAndCountedInFull) {
  const Analysis analysis =
      analyze_log(put("a.jsonl", line("q", 0, std::vector<float>(1000, std::nanf("")))));
  EXPECT_EQ(analysis.garbage_values, 1000);
  EXPECT_EQ(analysis.garbage.size(), static_cast<size_t>(kMaxListed));
}

TEST_F(AnalysisTest, AnEmptyLogIsAnError) {
  const std::string path = put("a.jsonl", "\n");
  EXPECT_THAT(error_of([&] { analyze_log(path); }), testing::HasSubstr("holds no records"));
}

}  // namespace
}  // namespace assay
