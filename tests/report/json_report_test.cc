#include "assay/report/json_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/report/example.h"
#include "tests/report/json.h"

namespace assay {
namespace {

rapidjson::Document parsed(const Comparison& comparison) {
  return parse(text_of(JsonReport(), comparison));
}

// Programs rely on each key: breaks if one were missing or in another place.
TEST(JsonReport, HasEveryKeyOfTheContract) {
  const rapidjson::Document json = parsed(example_comparison());
  using testing::ElementsAre;
  EXPECT_THAT(keys(json),
              ElementsAre("verdict", "pass", "evidence", "first_divergence", "summary", "alignment",
                          "flips", "drift", "results", "gaps", "causes", "error_sources",
                          "cause_hint", "causes_not_tried", "quarantine", "warnings"));
  EXPECT_THAT(keys(json["evidence"]),
              ElementsAre("whole", "partial", "excused", "unproven", "argmax_known", "argmax_total",
                          "first_unproven"));
  EXPECT_THAT(keys(json["first_divergence"]), ElementsAre("checkpoint", "layer", "op", "token_idx",
                                                          "metric", "value", "tolerance"));
  EXPECT_THAT(keys(json["summary"]),
              ElementsAre("compared", "failed", "quarantined", "unmatched_ref", "unmatched_got",
                          "argmax_agree", "argmax_total"));
  EXPECT_THAT(keys(json["alignment"]), ElementsAre("mode", "offset", "confidence"));
  EXPECT_THAT(keys(json["drift"]), ElementsAre("trend", "growth_per_layer", "position_trend",
                                               "growth_per_token", "sentence"));
  EXPECT_THAT(keys(json["results"][0]),
              ElementsAre("checkpoint", "token_idx", "n", "max_abs", "mean_abs", "rms", "rel_l2",
                          "cosine", "nmse", "max_ulp", "sign_flips", "argmax_ref", "argmax_got",
                          "regret", "kl", "topk_overlap", "status", "evidence", "tolerance"));
  EXPECT_THAT(keys(json["quarantine"][0]),
              ElementsAre("log", "checkpoint", "token_idx", "index", "value", "reason"));
  EXPECT_TRUE(json["causes"].Empty());
}

TEST(JsonReport, KeepsItsValues) {
  const rapidjson::Document json = parsed(example_comparison());
  EXPECT_STREQ(json["verdict"].GetString(), "wrong");
  EXPECT_FALSE(json["pass"].GetBool());
  EXPECT_EQ(json["first_divergence"]["layer"].GetInt(), 3);
  EXPECT_STREQ(json["first_divergence"]["op"].GetString(), "q");
  EXPECT_EQ(json["results"][0]["max_abs"].GetDouble(), 1009864046716911616.0);
  EXPECT_TRUE(json["results"][0]["kl"].IsNull());
  EXPECT_STREQ(json["results"][1]["rel_l2"].GetString(), "NaN");
  EXPECT_EQ(json["results"][1]["argmax_ref"].GetInt(), 3);
  EXPECT_STREQ(json["quarantine"][0]["log"].GetString(), "ref");
  EXPECT_STREQ(json["quarantine"][0]["reason"].GetString(), "heap_metadata");
}

// Breaks if a program that reads the counts took what was not compared for shown.
TEST(JsonReport, TellsWhatWasShownAndWhatWasNot) {
  const rapidjson::Document json = parsed(incomplete_example());
  EXPECT_STREQ(json["verdict"].GetString(), "incomplete");
  EXPECT_FALSE(json["pass"].GetBool());
  const auto& evidence = json["evidence"];
  EXPECT_EQ(evidence["whole"].GetInt(), 1);
  EXPECT_EQ(evidence["partial"].GetInt(), 1);
  EXPECT_EQ(evidence["excused"].GetInt(), 1);
  EXPECT_EQ(evidence["unproven"].GetInt(), 3);
  EXPECT_EQ(evidence["argmax_known"].GetInt(), 1);
  EXPECT_EQ(evidence["argmax_total"].GetInt(), 1);
  const auto& first = evidence["first_unproven"];
  EXPECT_THAT(keys(first), testing::ElementsAre("checkpoint", "token_idx", "reason"));
  EXPECT_STREQ(first["checkpoint"].GetString(), "layer_4_q");
  EXPECT_EQ(first["token_idx"].GetInt(), 7);
  EXPECT_STREQ(first["reason"].GetString(), "it is missing in the other log");
  ASSERT_EQ(json["gaps"].Size(), 4U);
  EXPECT_THAT(keys(json["gaps"][0]),
              testing::ElementsAre("checkpoint", "token_idx", "evidence", "reason"));
  EXPECT_STREQ(json["gaps"][1]["checkpoint"].GetString(), "layer_3_q");
  EXPECT_EQ(json["gaps"][1]["token_idx"].GetInt(), 8);
  EXPECT_STREQ(json["gaps"][1]["evidence"].GetString(), "unproven");
  EXPECT_STREQ(json["gaps"][3]["evidence"].GetString(), "excused");
  EXPECT_STREQ(json["gaps"][3]["reason"].GetString(), "accepted by --allow-missing");
}

TEST(JsonReport, ARecordTellsWhyItIsUnproven) {
  Comparison comparison = example_comparison();
  EXPECT_TRUE(parsed(comparison)["evidence"]["first_unproven"].IsNull());
  comparison.results[1].evidence = Evidence::kUnproven;
  comparison.results[1].reason = "it says why";
  const rapidjson::Document json = parsed(comparison);
  EXPECT_STREQ(json["results"][0]["evidence"].GetString(), "failed");
  EXPECT_FALSE(json["results"][0].HasMember("reason"));
  EXPECT_STREQ(json["results"][1]["evidence"].GetString(), "unproven");
  EXPECT_STREQ(json["results"][1]["reason"].GetString(), "it says why");
}

TEST(JsonReport, WithoutADivergenceIsNull) {
  Comparison comparison = example_comparison();
  comparison.first_divergence.reset();
  comparison.results.clear();
  comparison.quarantine.clear();
  const rapidjson::Document json = parsed(comparison);
  EXPECT_TRUE(json["first_divergence"].IsNull());
  EXPECT_TRUE(json["results"].Empty());
}

// Breaks if a hostile name in a log could break out of its string.
TEST(JsonReport, NamesAreEscaped) {
  Comparison comparison = example_comparison();
  comparison.checkpoints[0].name = "a\"b\\\n\x1b\xFF";
  EXPECT_STREQ(parsed(comparison)["results"][0]["checkpoint"].GetString(),
               "a\"b\\\n\x1b\xEF\xBF\xBD");
}

}  // namespace
}  // namespace assay
