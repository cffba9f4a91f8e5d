#include "assay/log/checkpoint_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace assay {
namespace {

TEST(CheckpointSet, LogitsIsOneCheckpoint) {
  const CheckpointSet set("logits");
  EXPECT_TRUE(set.matches("logits"));
  EXPECT_FALSE(set.matches("embedding"));
}

TEST(CheckpointSet, LayersLeavesOutTheOps) {
  const CheckpointSet set("layers");
  EXPECT_TRUE(set.matches("embedding"));
  EXPECT_TRUE(set.matches("layer_0_output"));
  EXPECT_TRUE(set.matches("layer_17_output"));
  EXPECT_TRUE(set.matches("logits"));
  EXPECT_FALSE(set.matches("layer_0_ffn_out"));
  EXPECT_FALSE(set.matches("final_norm"));
}

TEST(CheckpointSet, OpsIsEverything) {
  EXPECT_TRUE(CheckpointSet("ops").matches("layer_3_q_rope"));
}

TEST(CheckpointSet, TakesGlobsAndSetsTogether) {
  const CheckpointSet set("layer_[01]_*, layers");
  EXPECT_TRUE(set.matches("layer_1_q"));
  EXPECT_FALSE(set.matches("layer_2_q"));
  EXPECT_TRUE(set.matches("layer_2_output"));
}

TEST(CheckpointSet, RefusesEmptyItems) {
  for (const char* text : {"", "logits,", ",logits", " "}) {
    EXPECT_THROW(CheckpointSet set(text), Error) << text;
  }
}

}  // namespace
}  // namespace assay
