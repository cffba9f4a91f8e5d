// Folders of models of images or sound and text: engine/hf/text_parts.json.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/gguf.h"
#include "engine/hf/config.h"
#include "tests/support/hf_builder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::floats;
using testing_support::HfFolder;
using testing_support::HfTensors;
using testing_support::llama;
using testing_support::llama_config;

// Breaks if Ministral 3's folders, whose text is one of three networks, were refused, if another
// network's tensors were taken for the text's, or a tensor that no network has were ignored.
TEST_F(HfFolder, OfImagesAndTextTheTextIsTheModel) {
  const auto config = [](const std::string& more = "") {
    return fmt::format(
        R"({{"model_type": "mistral3", "text_config": {}, "vision_config": {{}}{}}})",
        llama_config(R"(, "tie_word_embeddings": false)", "mistral"), more);
  };
  const auto named = [](const std::string& model, const std::string& other) {
    HfTensors tensors;
    for (const auto& [name, tensor] : llama()) tensors[model + name.substr(6)] = tensor;
    tensors[other + "vision_tower.ln_pre.weight"] = {{2}};
    tensors[other + "multi_modal_projector.norm.weight"] = {{2}};
    return tensors;
  };
  const auto values = [&](const std::string& json, const HfTensors& tensors) {
    const Gguf gguf = open(json, tensors);
    std::map<std::string, std::vector<float>> all;
    for (const GgufTensor& tensor : gguf.tensors()) all[tensor.name] = floats(gguf, tensor.name);
    return all;
  };
  const auto alone = values(llama_config("", "mistral"), llama());
  const HfTensors published = named("language_model.model.", "");
  EXPECT_EQ(values(config(), published), alone);
  EXPECT_EQ(values(config(), named("model.language_model.", "model.")), alone);
  EXPECT_EQ(refusal(), "");
  HfTensors more = published;
  more["language_model.lm_head.weight"] = {{3, 8}};
  EXPECT_NE(open(config(), more).find_tensor("output.weight"), nullptr);
  EXPECT_EQ(
      open(config(R"(, "tie_word_embeddings": true)"), published).find_tensor("output.weight"),
      nullptr);
  EXPECT_THAT(refusal(config(R"(, "tie_word_embeddings": false)"), published),
              HasSubstr("tensor 'lm_head.weight' is missing"));
  HfTensors twice = published;
  twice["model.norm.weight"] = {{8}};
  EXPECT_THAT(refusal(config(), twice), HasSubstr("'model.norm.weight' is there under two names"));
  more["sound_tower.weight"] = {{2}};
  EXPECT_THAT(refusal(config(), more), HasSubstr("tensor 'sound_tower.weight' is not one"));
  EXPECT_THAT(refusal(config(R"(, "quantization_config": {})"), published),
              HasSubstr("config.json: key 'quantization_config' asks for"));
  EXPECT_THAT(refusal(R"({"model_type": "mistral3"})", published),
              HasSubstr("config.json: key 'text_config' is missing"));
  EXPECT_THAT(refusal(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral9"}})",
                      published),
              HasSubstr("config.json, text_config: key 'model_type' is 'mistral9'"));
}

// Breaks if what published files of Gemma 3 and Qwen2-VL leave out were missing: sizes that the
// class has, the kind of the text, and, in the second, the text_config itself.
TEST_F(HfFolder, OfImagesAndTextTheClassHasWhatIsLeftOut) {
  const auto keys_of = [](const std::string& json) { return read_hf_config(json, "config.json"); };
  const HfConfig gemma = keys_of(R"({"model_type": "gemma3", "vision_config": {},
      "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}})");
  EXPECT_EQ(gemma.architecture->name, "gemma3");
  EXPECT_EQ(gemma.n_heads, 8);
  EXPECT_EQ(gemma.n_vocab, 262208);
  EXPECT_TRUE(gemma.tied);
  EXPECT_THAT([&] { keys_of(R"({"model_type": "gemma3_text", "hidden_size": 2560})"); },
              ThrowsMessage<Error>(HasSubstr("key 'vocab_size' is missing")));
  const std::string flat = llama_config(
      R"(, "vision_config": {}, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 0]})",
      "qwen2_vl");
  const HfConfig qwen = keys_of(flat);
  EXPECT_EQ(qwen.architecture->name, "qwen2vl");
  EXPECT_FALSE(qwen.tied);
  HfTensors tensors = llama();
  for (const char* name : {"q", "k", "v"}) {
    tensors[fmt::format("model.layers.0.self_attn.{}_proj.bias", name)] = {{*name == 'q' ? 8 : 4}};
  }
  tensors["lm_head.weight"] = {{3, 8}};
  tensors["visual.merger.ln_q.weight"] = {{2}};
  EXPECT_NE(open(flat, tensors).find_tensor("output.weight"), nullptr);
  EXPECT_EQ(refusal(), "");
  // The text may say that the embedding is the output matrix where the whole does not.
  const auto tied = [&](const char* whole, const char* text) {
    return keys_of(fmt::format(R"({{"model_type": "llava"{}, "text_config": {}}})", whole,
                               llama_config(text)))
        .tied;
  };
  EXPECT_FALSE(tied("", ""));
  EXPECT_TRUE(tied("", R"(, "tie_word_embeddings": true)"));
  EXPECT_TRUE(tied(R"(, "tie_word_embeddings": true)", ""));
}

// Breaks if logits were scaled or capped within a model whose class leaves them as they are.
TEST_F(HfFolder, OfImagesAndTextLogitsAreScaledWhereTheWholeDoes) {
  const auto keys_of = [](const char* kind, const char* type, const char* more) {
    return read_hf_config(
        fmt::format(R"({{"model_type": "{}", "text_config": {}}})", kind, llama_config(more, type)),
        "config.json");
  };
  const auto refused = ThrowsMessage<Error>(HasSubstr("whose logits are scaled or capped"));
  EXPECT_THAT([&] { keys_of("granite_speech", "granite", R"(, "logits_scaling": 2.0)"); }, refused);
  EXPECT_NO_THROW(keys_of("granite_speech", "granite", R"(, "logits_scaling": 1.0)"));
  EXPECT_NO_THROW(keys_of("hyperclovax_vision_v2", "hyperclovax", R"(, "logits_scaling": 2.0)"));
  const char* capped = R"(, "head_dim": 4, "final_logit_softcapping": 5.0)";
  EXPECT_THAT([&] { keys_of("gemma3", "gemma3_text", capped); }, refused);
  EXPECT_NO_THROW(keys_of("gemma3", "gemma3_text", R"(, "head_dim": 4)"));
}

}  // namespace
}  // namespace assay
