#include "assay/report/json_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/report/example.h"

namespace assay {
namespace {

rapidjson::Document parse(const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(text.c_str());
  EXPECT_FALSE(document.HasParseError()) << text;
  return document;
}

std::vector<std::string> keys(const rapidjson::Value& object) {
  std::vector<std::string> names;
  for (const auto& member : object.GetObject()) names.emplace_back(member.name.GetString());
  return names;
}

rapidjson::Document parsed(const Comparison& comparison) {
  return parse(text_of([&](const TextSink& sink) { write_json(comparison, sink); }));
}

// Programs rely on each key: breaks if one were missing or in another place.
TEST(JsonReport, HasEveryKeyOfTheContract) {
  const rapidjson::Document json = parsed(example_comparison());
  using testing::ElementsAre;
  EXPECT_THAT(keys(json), ElementsAre("verdict", "pass", "first_divergence", "summary", "alignment",
                                      "drift", "results", "causes", "cause_hint", "quarantine"));
  EXPECT_THAT(keys(json["first_divergence"]), ElementsAre("checkpoint", "layer", "op", "token_idx",
                                                          "metric", "value", "tolerance"));
  EXPECT_THAT(keys(json["summary"]),
              ElementsAre("compared", "failed", "quarantined", "unmatched_ref", "unmatched_got",
                          "argmax_agree", "argmax_total"));
  EXPECT_THAT(keys(json["alignment"]), ElementsAre("mode", "offset", "confidence"));
  EXPECT_THAT(keys(json["drift"]), ElementsAre("trend", "growth_per_layer"));
  EXPECT_THAT(keys(json["results"][0]),
              ElementsAre("checkpoint", "token_idx", "n", "max_abs", "mean_abs", "rms", "rel_l2",
                          "cosine", "nmse", "max_ulp", "sign_flips", "argmax_ref", "argmax_got",
                          "regret", "kl", "topk_overlap", "status", "tolerance"));
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

TEST(JsonReport, OfAnAnalysis) {
  Analysis analysis;
  analysis.path = "a.jsonl";
  analysis.records = 3;
  analysis.stats.resize(1);
  analysis.garbage = {{0, 5, {1, 0, GarbageReason::kMagnitude}}};
  const rapidjson::Document json =
      parse(text_of([&](const TextSink& sink) { write_json(analysis, &analysis, sink); }));
  EXPECT_THAT(keys(json),
              testing::IsSupersetOf({"records", "tokens", "checkpoints", "garbage",
                                     "garbage_tokens", "garbage_rate", "stats", "compare"}));
  EXPECT_THAT(keys(json["garbage"][0]),
              testing::ElementsAre("checkpoint", "token_idx", "index", "value", "reason"));
  EXPECT_EQ(json["compare"]["records"].GetInt(), 3);
}

}  // namespace
}  // namespace assay
