#include "assay/compare/checkpoint_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace assay {
namespace {

TEST(CheckpointOrder, TakesNamesApart) {
  const CheckpointName name = parse_checkpoint_name("layer_17_attn_residual");
  EXPECT_EQ(name.layer, 17);
  EXPECT_EQ(name.op, "attn_residual");
  EXPECT_TRUE(name.known);
  EXPECT_EQ(parse_checkpoint_name("logits").layer, -1);
  EXPECT_TRUE(parse_checkpoint_name("logits").known);
}

TEST(CheckpointOrder, StrangeNamesAreKeptWhole) {
  for (const char* text : {"layer_", "layer_1", "layer_x_q", "layer_-1_q", "layer_01_q",
                           "layer_99999999999999999999_q", "layer_1_", "blk.0.attn"}) {
    const CheckpointName name = parse_checkpoint_name(text);
    EXPECT_EQ(name.layer, -1) << text;
    EXPECT_EQ(name.op, text);
    EXPECT_FALSE(name.known);
  }
  EXPECT_FALSE(parse_checkpoint_name("layer_1_mystery").known);
}

// Breaks if the first divergence were told at a later op than where it is.
TEST(CheckpointOrder, IsTheNetworks) {
  const std::vector<const char*> sorted = {"embedding",
                                           "layer_0_attn_norm",
                                           "layer_0_q",
                                           "layer_0_k",
                                           "layer_0_v",
                                           "layer_0_q_rope",
                                           "layer_0_k_rope",
                                           "layer_0_attn",
                                           "layer_0_attn_out",
                                           "layer_0_attn_residual",
                                           "layer_0_ffn_norm",
                                           "layer_0_ffn_gate",
                                           "layer_0_ffn_up",
                                           "layer_0_ffn_act",
                                           "layer_0_ffn_out",
                                           "layer_0_output",
                                           "layer_0_mystery",
                                           "layer_2_attn_norm",
                                           "layer_10_attn_norm",
                                           "final_norm",
                                           "logits",
                                           "mystery"};
  for (size_t i = 0; i + 1 < sorted.size(); ++i) {
    EXPECT_LT(compute_order(parse_checkpoint_name(sorted[i]), 5),
              compute_order(parse_checkpoint_name(sorted[i + 1]), 5))
        << sorted[i];
  }
  EXPECT_LT(compute_order(parse_checkpoint_name("b"), 1),
            compute_order(parse_checkpoint_name("a"), 2));
}

}  // namespace
}  // namespace assay
