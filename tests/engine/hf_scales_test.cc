#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/hf/scales.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

HfConfig config(const std::string& more) {
  return read_hf_config(R"({"model_type": "falcon_h1", "vocab_size": 5, "hidden_size": 8,
                            "num_hidden_layers": 1, "num_attention_heads": 2,
                            "num_key_value_heads": 1, "intermediate_size": 6, "mamba_d_ssm": 8,
                            "mamba_n_heads": 4, "mamba_d_state": 3, "mamba_n_groups": 2,
                            "max_position_embeddings": 16)" +
                            more + "}",
                        "config.json");
}

std::vector<float> numbers(const FormedTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Breaks if a multiplier were that of another module, or of other rows.
TEST(HfScales, AreThoseOfTheConfig) {
  const HfConfig read = config(R"(, "key_multiplier": 0.5, "attention_in_multiplier": 3.0,
                                   "ssm_in_multiplier": 2.0, "mlp_multipliers": [5.0, 7.0],
                                   "ssm_multipliers": [1.5, 2.5, 3.5, 4.5, 5.5])");
  EXPECT_EQ(row_scale(read, "attn_q", 0), 3.0);
  EXPECT_EQ(row_scale(read, "attn_k", 3), 1.5);
  EXPECT_EQ(row_scale(read, "attn_output", 0), 1.0);
  EXPECT_EQ(row_scale(read, "ffn_gate", 0), 5.0);
  EXPECT_EQ(row_scale(read, "ffn_up", 0), 1.0);
  EXPECT_EQ(row_scale(read, "ffn_down", 0), 7.0);
  const std::vector<double> of_rows = {1.5, 2.5, 3.5, 4.5, 5.5};
  const std::vector<int64_t> ends = {8, 16, 22, 28, 32};  // gate, values, B, C, steps
  for (size_t part = 0; part < ends.size(); ++part) {
    EXPECT_EQ(row_scale(read, "ssm_in", ends[part] - 1), 2.0 * of_rows[part]) << part;
  }
  EXPECT_FALSE(splits_tied(read));
  EXPECT_TRUE(splits_tied(config(R"(, "lm_head_multiplier": 0.5)")));
}

TEST(HfScales, MultiplyRowsAsF32) {
  const HfConfig read = config(R"(, "key_multiplier": 0.5)");
  std::deque<std::string> made;
  const std::vector<uint16_t> stored = {0x3F80, 0x4040, 0xC000, 0x0000};  // BF16: 1, 3, -2, 0
  const FormedTensor matrix{TensorType::kBF16, {2, 2}, std::as_bytes(std::span(stored))};
  const FormedTensor keys = scaled(matrix, read, "attn_k", made);
  EXPECT_EQ(keys.type, TensorType::kF32);
  EXPECT_THAT(numbers(keys), ElementsAre(0.5F, 1.5F, -1.0F, 0.0F));
  const FormedTensor values = scaled(matrix, read, "attn_v", made);
  EXPECT_EQ(values.data.data(), matrix.data.data()) << "nothing to multiply by";
}

TEST(HfScales, OthersAreRefusedByName) {
  const std::pair<const char*, const char*> others[] = {
      {R"(, "mlp_multipliers": [5.0])", "key 'mlp_multipliers' has no number 2"},
      {R"(, "ssm_multipliers": [1, 1, 1, 0, 1])", "key 'ssm_multipliers' is not an array"},
      {R"(, "key_multiplier": -1.0)", "key 'key_multiplier' is not a finite number above 0"},
      {R"(, "mamba_rms_norm": true)", "key 'mamba_norm_before_gate', by its default, is true"},
      {R"(, "projectors_bias": true)", "key 'projectors_bias' is true"},
      {R"(, "mamba_d_head": 3)", "key 'mamba_d_head' gives 4 heads 12"}};
  for (const auto& [more, message] : others) {
    EXPECT_THAT([&] { config(more); }, ThrowsMessage<Error>(HasSubstr(message))) << more;
  }
}

}  // namespace
}  // namespace assay
