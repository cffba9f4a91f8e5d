#include "assay/report/analysis_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/report/analysis_findings.h"
#include "tests/report/example.h"
#include "tests/report/json.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string analyses_json(const Analyses& analyses) {
  return text_of(*find_report(analysis_reports(), "json"), analyses);
}
std::string table_of(const Analyses& analyses) {
  return text_of(*find_report(analysis_reports(), "table"), analyses, {.style = {140, false}});
}

TEST(AnalysisReport, HasTheKeysOfTheContract) {
  Analysis analysis;
  analysis.path = "a.jsonl";
  analysis.records = 3;
  analysis.stats.resize(1);
  analysis.garbage = {{0, 5, {1, 0, GarbageReason::kMagnitude}}};
  const rapidjson::Document json = parse(analyses_json({{&analysis, 1}, &analysis}));
  EXPECT_THAT(keys(json),
              testing::IsSupersetOf({"records", "tokens", "checkpoints", "garbage",
                                     "garbage_tokens", "garbage_rate", "stats", "compare"}));
  EXPECT_THAT(keys(json["garbage"][0]),
              ElementsAre("checkpoint", "token_idx", "index", "value", "reason"));
  EXPECT_EQ(json["compare"]["records"].GetInt(), 3);
}

TEST(AnalysisReport, GroupsTokens) {
  Analysis analysis;
  analysis.path = "a.jsonl";
  analysis.records = analysis.tokens = 20;
  analysis.stats.resize(1);
  for (const int64_t token : {7, 9, 10, 10, 11}) {
    analysis.garbage.push_back({0, token, {0, 1, GarbageReason::kHeapMetadata}});
  }
  analysis.garbage_values = 70;
  analysis.garbage_by_reason = {{GarbageReason::kHeapMetadata, 70}};
  analysis.garbage_tokens = 4;
  analysis.garbage_rate = 0.2;
  const std::string text = table_of({{&analysis, 1}, nullptr, true});
  EXPECT_THAT(text, HasSubstr("garbage    70 values at 4 of 20 tokens (20.0 %)"));
  EXPECT_THAT(text, HasSubstr("heap_metadata: 70 values at tokens 7, 9-11\n"));
  EXPECT_THAT(text, HasSubstr("nonfinite"));
}

Analysis suspicious() {
  Analysis analysis;
  analysis.path = "a.jsonl";
  analysis.header.emplace().model.name = "gpt2";
  analysis.tokens = 14;
  analysis.stats.resize(2);
  analysis.stats[0].checkpoint.name = "layer_0_q";
  analysis.stats[1].checkpoint.name = "logits";
  analysis.garbage = {{1, 5, {0, -1e18F, GarbageReason::kHeapMetadata}}};
  analysis.garbage_by_reason = {{GarbageReason::kHeapMetadata, 1}};
  analysis.garbage_tokens = analysis.out_of_scale_tokens = 1;
  analysis.positions = {{0, 3}, {2, 9}};
  analysis.suspicions = {{SuspicionKind::kRepeat, 0, 6, 0, 10, 1, 5},
                         {SuspicionKind::kAllZero, 1, 9, 0, 10}};
  return analysis;
}

TEST(AnalysisReport, SaysWhatItComesTo) {
  const Analysis analysis = suspicious();
  EXPECT_THAT(findings_of(analysis),
              ElementsAre(HasSubstr("freed memory: at 1 token the"),
                          HasSubstr("1 record, at token 6, repeats an earlier one bit for bit"),
                          HasSubstr("1 record, at token 9, is all zeros")));
  EXPECT_TRUE(findings_of(Analysis()).empty());
  const std::string text = table_of({{&analysis, 1}});
  EXPECT_THAT(text, HasSubstr("positions  2 (9), 0 (3)\n"));
  EXPECT_THAT(text, HasSubstr("finding    freed memory"));
}

TEST(AnalysisReport, SeveralLogsHaveTheirRatesOnTop) {
  const std::vector<Analysis> logs = {suspicious(), suspicious()};
  const std::string text = table_of({logs});
  EXPECT_THAT(text, HasSubstr("garbage tokens"));
  EXPECT_THAT(text, HasSubstr("1/14"));
  const rapidjson::Document json = parse(analyses_json({logs}));
  ASSERT_EQ(json["logs"].Size(), 2U);
  EXPECT_STREQ(json["logs"][1]["model"].GetString(), "gpt2");
  const auto& suspicions = json["logs"][0]["suspicions"];
  EXPECT_STREQ(suspicions[0]["of"]["checkpoint"].GetString(), "logits");
  EXPECT_FALSE(suspicions[1].HasMember("of"));
  EXPECT_EQ(json["logs"][0]["positions"][1]["count"].GetInt(), 9);
}

}  // namespace
}  // namespace assay
