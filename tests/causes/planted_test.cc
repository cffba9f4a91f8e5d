// Mistakes that were planted in transformers (golden/generate/families/planted.py), of which only
// logits are known: a comparison names each. What Assay's own catalogue injects could be wrong in
// the same way as what it recomputes; these cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/causes/faulty_logs.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

struct Planted {
  const char* file;   // begins with the cause
  const char* model;  // a folder of golden/
  const char* where = "";
};

class PlantedMistakes : public FaultyLogs, public testing::WithParamInterface<Planted> {};

TEST_P(PlantedMistakes, AreNamedByLogitsAlone) {
  const std::string file = GetParam().file;
  const std::string path = source_path("tests/data/planted/") + file;
  const auto model = load(GetParam().model);
  const Comparison found = compare(model.get(), path + ".ref.jsonl", path + ".got.jsonl", 1e-5);
  ASSERT_FALSE(found.pass);
  ASSERT_FALSE(found.causes.empty()) << found.cause_hint;
  EXPECT_EQ(found.causes[0].name, file.substr(0, file.find('-'))) << found.causes[0].sentence;
  EXPECT_GT(found.causes[0].explained, 0.9999) << found.causes[0].sentence;
  EXPECT_THAT(found.causes[0].sentence, HasSubstr(GetParam().where));
}

INSTANTIATE_TEST_SUITE_P(
    , PlantedMistakes,
    testing::Values(Planted{"norm_order", "qwen3"}, Planted{"residual", "smollm3"},
                    Planted{"norm_weight_plus_one", "gemma3", "q_norm"},
                    Planted{"norm_weight_plus_one-both", "gemma3", "q_norm, like k_norm"},
                    Planted{"bias_missing", "starcoder2", "ffn_norm"},
                    Planted{"expert_order", "mixtral"}, Planted{"expert_order-next", "mixtral"},
                    Planted{"expert_order-down", "mixtral",
                            "expert_out exchanges the weights of experts 1 and 2"},
                    Planted{"qk_norm", "qwen3", "has the weights of the other norm of q and k"},
                    Planted{"norm_order-exchanged", "qwen3",
                            "every layer's attn_norm, like ffn_norm"},
                    Planted{"kv_layer", "qwen3", "reads the keys and values of the layer before"},
                    Planted{"router_weights", "mixtral", "on the experts' input"},
                    Planted{"wrong_token", "qwen3", "exchanges the tokens of positions 5 and 6"},
                    Planted{"activation_kind", "gpt-oss"}, Planted{"attention_softcap", "gemma2"},
                    Planted{"gate_up_swapped", "qwen3moe"},
                    Planted{"bias_missing-choice", "deepseek3", "without the bias of the choice"},
                    Planted{"norm_kind", "qwen3", "final_norm leaves the norm out"},
                    Planted{"rounding", "granite", "rounds the weights to bf16"},
                    Planted{"rope_dimensions", "phi2", "rotates 12 of the 16 elements"},
                    Planted{"rope_position", "qwen3", "from token 7 on every layer's q_rope"},
                    Planted{"attention_sinks", "gpt-oss", "of every layer with a window"}),
    [](const auto& each) {
      std::string name = each.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace assay
