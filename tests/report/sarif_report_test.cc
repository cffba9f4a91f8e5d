#include "assay/report/sarif_report.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/report/example.h"

namespace assay {
namespace {

rapidjson::Document sarif(const Comparison& comparison) {
  const std::string text = text_of(SarifReport(), comparison);
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(text.c_str());
  EXPECT_FALSE(document.HasParseError()) << text;
  return document;
}

TEST(SarifReport, HasAResultForEachFailingCheckpoint) {
  const rapidjson::Document log = sarif(example_comparison());
  EXPECT_STREQ(log["version"].GetString(), "2.1.0");
  const auto& run = log["runs"][0];
  ASSERT_EQ(run["results"].Size(), 1U);
  const auto& result = run["results"][0];
  const auto& rule = run["tool"]["driver"]["rules"][result["ruleIndex"].GetUint()];
  EXPECT_STREQ(result["ruleId"].GetString(), "rel_l2");
  EXPECT_STREQ(rule["id"].GetString(), "rel_l2");
  EXPECT_STREQ(result["message"]["text"].GetString(),
               "First divergence: layer_3_q at token 7: rel_l2 0.0251 is over 0.01 (1 of 1 token "
               "fails)");
  EXPECT_STREQ(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].GetString(),
               "got.jsonl");
}

TEST(SarifReport, APathBecomesAUri) {
  Comparison comparison = example_comparison();
  comparison.got_path = "/a b/\xc3\xa9#?%.jsonl";
  const rapidjson::Document log = sarif(comparison);
  const auto& location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
  EXPECT_STREQ(location["artifactLocation"]["uri"].GetString(),
               "file:///a%20b/%C3%A9%23%3F%25.jsonl");
}

TEST(SarifReport, ParityHasNoResults) {
  Comparison comparison = example_comparison();
  comparison.results.erase(comparison.results.begin());
  EXPECT_TRUE(sarif(comparison)["runs"][0]["results"].Empty());
}

// Breaks if a code scanning page were empty, as in parity, where half of the reference is missing.
TEST(SarifReport, WhatIsUnprovenIsAResultOfItsOwnRule) {
  const rapidjson::Document log = sarif(incomplete_example());
  const auto& run = log["runs"][0];
  EXPECT_FALSE(run["invocations"][0]["executionSuccessful"].GetBool());
  ASSERT_EQ(run["results"].Size(), 2U);
  const auto& result = run["results"][1];
  const auto& rule = run["tool"]["driver"]["rules"][result["ruleIndex"].GetUint()];
  EXPECT_STREQ(result["ruleId"].GetString(), "unproven");
  EXPECT_STREQ(rule["id"].GetString(), "unproven");
  EXPECT_STREQ(result["level"].GetString(), "error");
  EXPECT_STREQ(result["message"]["text"].GetString(),
               "layer_4_q is unproven at 2 tokens, the first 7: it is missing in the other log");
  EXPECT_STREQ(result["locations"][0]["logicalLocations"][0]["name"].GetString(), "layer_4_q");
  EXPECT_STREQ(result["partialFingerprints"]["assayCheckpoint/v1"].GetString(),
               "layer_4_q:unproven");
}

TEST(SarifReport, ZerosAreResultsWhereNothingElseWasCompared) {
  const rapidjson::Document log = sarif(zeros_example());
  const auto& results = log["runs"][0]["results"];
  ASSERT_EQ(results.Size(), 1U);
  EXPECT_STREQ(results[0]["ruleId"].GetString(), "unproven");
  EXPECT_STREQ(results[0]["message"]["text"].GetString(),
               "logits is all zeros on both sides, which proves nothing");
}

// Breaks if a checkpoint that fails, and lacks tokens too, were listed twice.
TEST(SarifReport, AFailedCheckpointIsNotListedAsUnproven) {
  Comparison comparison = example_comparison();
  comparison.gaps = {{0, 8, Evidence::kUnproven, kMissing}, {1, 8, Evidence::kUnproven, kMissing}};
  const auto log = sarif(comparison);
  const auto& results = log["runs"][0]["results"];
  ASSERT_EQ(results.Size(), 2U);
  EXPECT_STREQ(results[0]["ruleId"].GetString(), "rel_l2");
  EXPECT_STREQ(results[1]["ruleId"].GetString(), "unproven");
  EXPECT_STREQ(results[1]["locations"][0]["logicalLocations"][0]["name"].GetString(), "logits");
}

}  // namespace
}  // namespace assay
