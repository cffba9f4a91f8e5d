// The logs that the public parity investigation published (tests/data/seed_logs).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "assay/compare/analysis.h"
#include "assay/compare/compare_logs.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

class SeedLogs : public testing::Test {
 protected:
  void SetUp() override { folder_ = source_path("tests/data/seed_logs"); }
  std::string llama() const { return folder_ + "/llama_hidden_states.jsonl"; }
  std::string ours() const { return folder_ + "/our_hidden_states.jsonl"; }

  std::string folder_;
};

// The published table. Breaks if plain numbers were touched by the quarantine.
TEST_F(SeedLogs, PlainDifferencesMatchThePublishedOnes) {
  CompareOptions options;
  options.quarantine = QuarantineMode::kOff;
  const Comparison comparison = compare_logs(llama(), ours(), options);
  ASSERT_EQ(comparison.results.size(), 14U);
  EXPECT_EQ(comparison.unmatched_got, 5);
  const struct {
    int64_t token;
    double max, mean;
  } published[] = {{7, 1.01e18, 1.01e17}, {8, 16.38, 6.28}, {9, 46581, 4660}};
  for (size_t i = 0; i < 3; ++i) {
    const RecordResult& result = comparison.results[i];
    EXPECT_EQ(result.token_idx, published[i].token);
    EXPECT_NEAR(result.metrics.max_abs / published[i].max, 1, 5e-4);
    EXPECT_NEAR(result.metrics.mean_abs / published[i].mean, 1, 6e-4);
  }
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.alignment.offset, 0);
}

TEST_F(SeedLogs, ReportsFreedMemoryAtTokens7And9To20) {
  const Analysis analysis = analyze_log(llama());
  std::set<int64_t> tokens;
  for (const ListedGarbage& listed : analysis.garbage) {
    EXPECT_EQ(listed.garbage.reason, GarbageReason::kHeapMetadata);
    tokens.insert(listed.token_idx);
  }
  EXPECT_THAT(tokens, testing::ElementsAre(7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20));
  EXPECT_EQ(analysis.garbage_tokens, 13);
  EXPECT_DOUBLE_EQ(analysis.garbage_rate, 13.0 / 14);
}

TEST_F(SeedLogs, FindsNoGarbageInTheOtherEnginesLog) {
  const Analysis analysis = analyze_log(ours());
  EXPECT_EQ(analysis.garbage_values, 0);
  EXPECT_EQ(analysis.records, 19);
}

// Breaks if a value that is the allocator's still counted as a difference of the engines.
TEST_F(SeedLogs, OnlyRealDifferencesRemainWithoutGarbage) {
  for (const RecordResult& result : compare_logs(llama(), ours(), {}).results) {
    EXPECT_LT(result.metrics.max_abs, 20) << result.token_idx;
  }
}

}  // namespace
}  // namespace assay
