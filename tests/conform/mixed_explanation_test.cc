// A mistake of the catalogue, alone or beside one of the feature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "assay/mutate/mutant_log.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;

class MixedExplanations : public TemporaryFolder {
 protected:
  // What is found in the log of an engine with the fault that computes `feature` with the mistakes
  // of it whose texts are given.
  TableCell judged(const std::string& name, const std::vector<std::string>& texts,
                   const std::string& fault) const {
    const std::vector<Feature> features = read_suite(source_path("conform/suite"), {name});
    const Feature& feature = features.front();
    write_feature_folder(feature, feature.config, {}, path("model"));
    std::string config = feature.config;
    ChangedTensors tensors;
    for (const std::string& text : texts) {
      const auto found = std::ranges::find(feature.counterfactuals, text, &Counterfactual::text);
      EXPECT_NE(found, feature.counterfactuals.end()) << text;
      config = patched_config(config, found->patch);
      tensors.insert(tensors.end(), found->tensors.begin(), found->tensors.end());
    }
    write_feature_folder(feature, config, tensors, path("engine"));
    LogOptions whole;
    whole.head_values = kAllValues;
    write_mutant_log({.model_path = path("engine"),
                      .fault = fault,
                      .layer = {},
                      .tokens = feature.tokens,
                      .log = {path("own.jsonl"), whole, CheckpointSet("logits")}});
    std::ifstream lines(path("own.jsonl"));
    std::string line;
    std::getline(lines, line);  // the header names the engine's model
    std::string text;
    while (std::getline(lines, line)) text += line + "\n";
    TableCell cell;
    cell.log = put("log.jsonl", text);
    judge(feature, find_precision("float32", "test"), path("model"), cell);
    return cell;
  }
};

// tinygrad reorders the rows of q and k, and not their biases; it reads no bias of the output.
TEST_F(MixedExplanations, ABiasThatIsLeftOutAndOthersInAnotherOrder) {
  const TableCell cell =
      judged("attention_bias", {"leaves that of the output projection out"}, "qk-bias-order");
  EXPECT_EQ(cell.finding, Finding::kMisread) << cell.text;
  EXPECT_EQ(cell.cause, "bias_missing, rope_pairing");
  EXPECT_THAT(cell.text, HasSubstr("leaves that of the output projection out, and "));
  EXPECT_THAT(cell.text, HasSubstr("has the bias in the order of"));
}

// Of a family whose scales it does not know, all at once.
TEST_F(MixedExplanations, AllMistakesOfAFeatureAndOneMore) {
  const TableCell cell =
      judged("family_granite",
             {"leaves embedding_multiplier out", "scales scores by the root of the heads' width",
              "leaves residual_multiplier out", "leaves logits_scaling out"},
             "rope-pairing");
  EXPECT_EQ(cell.finding, Finding::kMisread) << cell.text;
  EXPECT_THAT(cell.cause, HasSubstr("logit_scale, rope_pairing"));
}

// Of Ministral 3's scaling and base an engine that leaves the scaling out reads the base, so that
// not all mistakes of the feature are made.
TEST_F(MixedExplanations, OneOfTwoMistakesThatExcludeEachOther) {
  const TableCell cell = judged(
      "family_ministral3",
      {"takes the angles without scaling", "does not scale queries by position"}, "rope-pairing");
  EXPECT_EQ(cell.finding, Finding::kMisread) << cell.text;
  EXPECT_EQ(cell.cause, "rope_scaling, rope_position, rope_pairing");
}

// tinygrad normalises Hunyuan's q and k before it rotates them: from logits alone that shows at the
// norm.
TEST_F(MixedExplanations, ANormBeforeTheRotationIsNamedFromLogits) {
  const TableCell cell = judged("family_hunyuan_v1_dense", {}, "qk-norm-before-rotation");
  EXPECT_EQ(cell.finding, Finding::kMisread) << cell.text;
  EXPECT_EQ(cell.cause, "norm_order");
  EXPECT_THAT(cell.text, HasSubstr("is taken before the rotation, not behind it"));
}

// mistral.rs computes Phi-3.5-MoE's weights so.
TEST_F(MixedExplanations, AThresholdByTheSmallerOfTwoScoresIsNamedFromLogits) {
  const TableCell cell = judged("family_phimoe", {}, "mixer-smaller-score");
  EXPECT_EQ(cell.finding, Finding::kMisread) << cell.text;
  EXPECT_EQ(cell.cause, "router_weights");
  EXPECT_THAT(cell.text, HasSubstr("by the smaller of two scores"));
}

// Breaks if two mistakes of the catalogue, or noise, were taken for one beside the feature's.
TEST_F(MixedExplanations, WhatTheCatalogueLacksIsNotNamed) {
  const TableCell cell =
      judged("attention_bias", {"leaves that of the output projection out"}, "inputs-q8");
  EXPECT_EQ(cell.finding, Finding::kDiffers) << cell.text;
}

}  // namespace
}  // namespace assay
