#include "assay/compare/checkpoint_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace assay {
namespace {

TEST(CheckpointOrder, ParsesNames) {
  const CheckpointName name = parse_checkpoint_name("layer_17_attn_residual");
  EXPECT_EQ(name.layer, 17);
  EXPECT_EQ(name.op, "attn_residual");
  EXPECT_TRUE(name.known);
  EXPECT_EQ(parse_checkpoint_name("logits").layer, -1);
  EXPECT_TRUE(parse_checkpoint_name("logits").known);
}

TEST(CheckpointOrder, KeepsUnknownNamesWhole) {
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
TEST(CheckpointOrder, FollowsTheNetwork) {
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

// The names as order_checkpoints() sorts them; `after` as in ArrivedCheckpoint, or each the one
// before.
std::vector<std::string> sorted(const std::vector<std::string>& names,
                                const std::vector<int32_t>& after = {}) {
  std::vector<ArrivedCheckpoint> arrived;
  std::vector<CheckpointName> alone;
  for (const std::string& name : names) {
    alone.push_back(parse_checkpoint_name(name));
    arrived.push_back({alone.back(), after.empty() ? -1 : after[arrived.size()]});
  }
  const std::vector<int32_t> ranks =
      after.empty() ? order_checkpoints(alone) : order_checkpoints(arrived);
  std::vector<std::string> result(names.size());
  for (size_t i = 0; i < names.size(); ++i) result.at(static_cast<size_t>(ranks[i])) = names[i];
  return result;
}

using Names = std::vector<std::string>;

// Breaks if a name of an engine's own came after the logits, or behind the output of its layer, and
// so hid that it is where two logs first diverge.
TEST(CheckpointOrder, UnknownNamesKeepTheirLoggedPosition) {
  const Names in_order = {"raw_input",         "embedding",      "scaled_embedding",
                          "layer_3_attn_norm", "layer_3_my_q",   "layer_3_q",
                          "my_scores",         "layer_3_scores", "layer_3_attn",
                          "layer_3_output",    "layer_3_after",  "between",
                          "layer_4_before",    "layer_4_q",      "final_norm",
                          "raw_logits",        "logits",         "tail"};
  EXPECT_EQ(sorted(in_order), in_order);
  // Known ones do not need the file's order.
  EXPECT_EQ(sorted({"logits", "my_tail", "layer_1_v", "my_v", "layer_1_q", "my_q", "embedding"}),
            (Names{"embedding", "layer_1_q", "my_q", "layer_1_v", "my_v", "logits", "my_tail"}));
}

// A layer's own name says where it belongs, whatever it is logged after.
TEST(CheckpointOrder, UnknownLayerNamesStayInTheirLayer) {
  EXPECT_EQ(sorted({"embedding", "layer_0_q", "layer_1_q", "layer_1_output", "logits",
                    "layer_0_late", "layer_1_late"}),
            (Names{"embedding", "layer_0_q", "layer_0_late", "layer_1_q", "layer_1_output",
                   "layer_1_late", "logits"}));
  EXPECT_EQ(sorted({"embedding", "layer_2_early", "layer_0_q", "layer_2_q"}),
            (Names{"embedding", "layer_0_q", "layer_2_early", "layer_2_q"}));
  EXPECT_EQ(sorted({"layer_0_mine", "layer_0_q"}), (Names{"layer_0_mine", "layer_0_q"}));
}

// One that first arrives at a later token, or in the second of two logs, has another before it than
// the last that arrived.
TEST(CheckpointOrder, PrecedingNameMayHaveArrivedMuchEarlier) {
  EXPECT_EQ(sorted({"embedding", "layer_0_q", "logits", "cached", "new"}, {-1, 0, 1, 1, 3}),
            (Names{"embedding", "layer_0_q", "cached", "new", "logits"}));
  EXPECT_EQ(sorted({"logits", "a", "b"}, {-1, -1, 7}), (Names{"a", "b", "logits"}));
  EXPECT_TRUE(order_checkpoints(std::vector<CheckpointName>()).empty());
}

}  // namespace
}  // namespace assay
