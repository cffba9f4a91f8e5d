#include "assay/report/json_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/report/example.h"
#include "tests/report/json.h"

namespace assay {
namespace {

rapidjson::Document parsed(const Comparison& comparison) {
  return parse(text_of([&](const TextSink& sink) { write_json(comparison, sink); }));
}

// Programs rely on each key: breaks if one were missing or in another place.
TEST(JsonReport, HasEveryKeyOfTheContract) {
  const rapidjson::Document json = parsed(example_comparison());
  using testing::ElementsAre;
  EXPECT_THAT(keys(json), ElementsAre("verdict", "pass", "first_divergence", "summary", "alignment",
                                      "drift", "results", "causes", "error_sources", "cause_hint",
                                      "quarantine", "warnings"));
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

}  // namespace
}  // namespace assay
