// Mistakes that change less than an engine may round.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "assay/record/run.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;

class SmallMistakes : public TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    features_ = read_suite(source_path("conform/suite"), {"gelu_with_erf"});
    ASSERT_TRUE(feature().counterfactuals.at(0).small);
    write_feature_folder(feature(), feature().config, {}, path("model"));
  }

  const Feature& feature() const { return features_.at(0); }

  // The log of an engine that has the feature, or makes its mistake.
  std::string log_of(bool mistaken) {
    const Counterfactual& mistake = feature().counterfactuals[0];
    const std::string config =
        mistaken ? patched_config(feature().config, mistake.patch) : feature().config;
    write_feature_folder(feature(), config, {}, path("run"));
    RunOptions options;
    options.model_path = path("run");
    options.tokens = feature().tokens;
    options.n_predict = 0;
    LogOptions whole;
    whole.head_values = kAllValues;
    options.log.emplace(LogRequest{path("log.jsonl"), whole, CheckpointSet("logits")});
    run(options, {});
    return path("log.jsonl");
  }

  // Of that log, each value through `rounded`.
  template <typename Rounded>
  TableCell judged(bool mistaken, const std::string& precision, const Rounded& rounded) {
    std::string text;
    std::ifstream lines(log_of(mistaken));
    for (std::string line; std::getline(lines, line);) {
      rapidjson::Document record;
      record.Parse(line.c_str());
      if (!record.HasMember("values")) continue;
      text += fmt::format(
          R"({{"checkpoint":"logits","token_idx":{},"dtype":"f32","shape":[1,{}],"values":[)",
          record["token_idx"].GetInt(), record["values"].Size());
      const char* comma = "";
      for (const auto& value : record["values"].GetArray()) {
        text += fmt::format("{}{}", std::exchange(comma, ","), rounded(value.GetDouble()));
      }
      text += "]}\n";
    }
    TableCell cell;
    cell.log = put("rounded.jsonl", text);
    judge(feature(), find_precision(precision, "test"), path("model"), cell);
    return cell;
  }

  std::vector<Feature> features_;
};

// Breaks if what is within the precision counted as right, although it is the mistake's.
TEST_F(SmallMistakes, AreFoundWithinWhatAnEngineMayRound) {
  for (const char* precision : {"float32", "mixed", "float16", "bfloat16", "int8"}) {
    const TableCell exact = judged(true, precision, [](double value) { return value; });
    EXPECT_EQ(exact.finding, Finding::kIgnored) << precision << ": " << exact.text;
    EXPECT_EQ(exact.cause, "activation_kind") << precision;
    const TableCell decimals =
        judged(true, precision, [](double value) { return fmt::format("{:.4f}", value); });
    EXPECT_EQ(decimals.finding, Finding::kIgnored) << precision << ": " << decimals.text;
  }
}

// Breaks if rounding itself counted as a mistake, or as none where it hides it.
TEST_F(SmallMistakes, RoundingThatHidesThemIsNoEvidence) {
  const double error = judged(true, "bfloat16", [](double value) { return value; }).error->rel_l2;
  const auto with_noise = [&](bool mistaken, double of_mistake) {
    std::mt19937 random(7);
    std::normal_distribution<double> noise(0.0, of_mistake * error);
    return judged(mistaken, "bfloat16",
                  [&](double value) { return value * (1.0 + noise(random)); });
  };
  EXPECT_EQ(with_noise(false, 0.5).finding, Finding::kHonoured);
  EXPECT_EQ(with_noise(false, 2.0).finding, Finding::kHonoured) << "the mistake is further away";
  const TableCell hidden = with_noise(true, 2.0);
  EXPECT_EQ(hidden.finding, Finding::kUnsupported) << hidden.text;
  EXPECT_THAT(hidden.text, HasSubstr("rounds too much to tell it"));
  EXPECT_THAT(hidden.text, HasSubstr("takes GELU with tanh"));
  EXPECT_EQ(with_noise(true, 0.1).finding, Finding::kIgnored);
}

// Breaks if a whole family were not honoured, or honoured without a word, where rounding hides one
// of its mistakes.
TEST_F(SmallMistakes, OneOfSeveralThatRoundingHidesIsNamed) {
  features_ = read_suite(source_path("conform/suite"), {"family_gemma"});
  ASSERT_GT(feature().counterfactuals.size(), 1U);
  write_feature_folder(feature(), feature().config, {}, path("model"));
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0.0, 0.015);
  const TableCell family =
      judged(false, "bfloat16", [&](double value) { return value * (1.0 + noise(random)); });
  EXPECT_EQ(family.finding, Finding::kHonoured) << family.text;
  EXPECT_THAT(family.text, HasSubstr("which bfloat16 may cost"));
  EXPECT_THAT(family.text, HasSubstr("; rounds too much to tell it"));
  EXPECT_THAT(family.text, HasSubstr("takes GELU with erf"));
}

}  // namespace
}  // namespace assay
