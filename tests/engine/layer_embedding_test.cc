// Embeddings of layers, keys and values that layers share, and feed-forwards of several widths
// (Gemma 4's E2B and E4B), from files and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "tests/engine/gemma4_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_gemma4;
using testing_support::TinyModel;

// Four layers, with a window and without in turn, of which the last two read keys and values of the
// first two and are twice as wide; each with an embedding of 6.
void become_small(TinyModel& model) {
  become_gemma4(model);
  const auto first = model.tensors;
  for (const auto& [name, tensor] : first) {
    if (!name.starts_with("blk.")) continue;
    const int layer = name[4] - '0';
    model.tensors["blk." + std::to_string(layer + 2) + name.substr(5)] = tensor;
  }
  model.ints["gemma4.block_count"] = 4;
  model.int_lists["gemma4.attention.sliding_window_pattern"] = {1, 0, 1, 0};
  model.int_lists["gemma4.attention.head_count_kv"] = {2, 1, 2, 1};
  model.ints["gemma4.attention.shared_kv_layers"] = 2;
  model.ints["gemma4.embedding_length_per_layer_input"] = 6;
  model.ints.erase("gemma4.feed_forward_length");
  model.int_lists["gemma4.feed_forward_length"] = {12, 12, 24, 24};
  for (const std::string layer : {"blk.2.", "blk.3."}) {
    for (const char* tensor : {"attn_k", "attn_v", "attn_k_norm"}) {
      model.tensors.erase(layer + tensor + ".weight");
    }
    model.tensors[layer + "ffn_gate.weight"] = {{8, 24}};
    model.tensors[layer + "ffn_up.weight"] = {{8, 24}};
    model.tensors[layer + "ffn_down.weight"] = {{24, 8}};
  }
  for (const std::string layer : {"blk.0.", "blk.1.", "blk.2.", "blk.3."}) {
    model.tensors[layer + "inp_gate.weight"] = {{8, 6}};
    model.tensors[layer + "proj.weight"] = {{6, 8}};
    model.tensors[layer + "post_norm.weight"] = {{8}};
  }
  model.tensors["per_layer_token_embd.weight"] = {{24, 5}};
  model.tensors["per_layer_model_proj.weight"] = {{8, 24}};
  model.tensors["per_layer_proj_norm.weight"] = {{6}};
}

class LayerEmbeddings : public TemporaryFolder {
 protected:
  std::string path() const { return TemporaryFolder::path("model.gguf"); }

  std::unique_ptr<Model> model_with(const std::function<void(TinyModel&)>& change) const {
    TinyModel tiny;
    become_small(tiny);
    change(tiny);
    tiny.write(path());
    return std::make_unique<Model>(std::make_shared<Gguf>(path()));
  }

  void expect_rejected(const std::function<void(TinyModel&)>& change,
                       const std::string& message) const {
    EXPECT_THAT([&] { model_with(change); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
};

// Breaks if a layer read the keys and values of one of the other kind, or had room for its own.
TEST_F(LayerEmbeddings, LaterLayersReadTheLastKeysAndValuesOfTheirKind) {
  const auto model = model_with([](TinyModel&) {});
  const ModelConfig& config = model->config();
  EXPECT_THAT(
      (std::array{config.kv_layer(0), config.kv_layer(1), config.kv_layer(2), config.kv_layer(3)}),
      ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(find_spec(config.layer(2).ops, Checkpoint::kK), nullptr);
  const KvCache cache(config, KvType::kF32, 3, host_memory());
  EXPECT_EQ(cache.k_bytes(2, 1), 0U);
  EXPECT_EQ(cache.position_bytes(), 4U * 4 * 4);
  EXPECT_EQ(config.width(Width::kInner, config.layer(1)), 12);
  EXPECT_EQ(config.width(Width::kInner, config.layer(3)), 24);
}

// Breaks if a layer had another's part of what is computed for all of them.
TEST_F(LayerEmbeddings, EachLayerHasItsPart) {
  const auto model = model_with([](TinyModel&) {});
  const auto* all =
      static_cast<const float*>(model->layers[0].linear(Checkpoint::kPleProj).weight.data);
  EXPECT_EQ(model->layers[3].linear(Checkpoint::kPleProj).weight.data, all + 3 * 6 * 8);
  EXPECT_EQ(model->layers[3].linear(Checkpoint::kPleProj).weight.rows, 6);
  EXPECT_EQ(model->ple_embedding.columns, 24);
  EXPECT_EQ(model->config().ple_parts(2).own_first, 12);
  EXPECT_EQ(model->config().ple_parts(2).own_count, 6);
}

// Breaks if a file were refused that has keys and values which its layers do not read.
TEST_F(LayerEmbeddings, UnreadKeysAndValuesAreIgnored) {
  const auto model = model_with([](TinyModel& tiny) {
    tiny.tensors["blk.2.attn_k.weight"] = {{8, 4}};
    tiny.tensors["blk.3.attn_k_norm.weight"] = {{4}};
  });
  EXPECT_EQ(find_spec(model->config().layer(2).ops, Checkpoint::kK), nullptr);
}

TEST_F(LayerEmbeddings, OtherFilesAreRefusedByName) {
  expect_rejected([](TinyModel& m) { m.ints["gemma4.attention.shared_kv_layers"] = 4; },
                  "key 'gemma4.attention.shared_kv_layers' is 4 of 4 layers");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.attention.shared_kv_layers"] = 3; },
                  "key 'gemma4.attention.shared_kv_layers' leaves layer 1 without keys and");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.attention.shared_kv_layers"] = 1; },
                  "tensor 'blk.2.attn_k.weight' is missing");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.embedding_length_per_layer_input"] = 0; },
                  "is not one that Assay uses for architecture 'gemma4'");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.embedding_length_per_layer_input"] = 5; },
                  "the hyperparameters say");
  expect_rejected([](TinyModel& m) { m.tensors.erase("per_layer_proj_norm.weight"); },
                  "tensor 'per_layer_proj_norm.weight' is missing");
  expect_rejected(
      [](TinyModel& m) {
        m.tensors["per_layer_token_embd.weight"] = {{24, 4}};
      },
      "tensor 'per_layer_token_embd.weight' has the shape [24, 4]");
  expect_rejected([](TinyModel& m) { m.tensors.erase("blk.3.inp_gate.weight"); }, "'blk.3.");
  expect_rejected(
      [](TinyModel& m) {
        m.int_lists["gemma4.feed_forward_length"] = {12, 12, 0, 24};
      },
      "key 'gemma4.feed_forward_length' has a layer of 0");
}

HfConfig embeddings_config(const std::string& more) {
  return read_hf_config(R"({"model_type": "gemma4_text", "vocab_size": 5, "hidden_size": 8,
                            "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 2,
                            "num_key_value_heads": 2, "intermediate_size": 6,
                            "layer_types": ["sliding_attention", "full_attention",
                                            "sliding_attention", "full_attention"])" +
                            more + "}",
                        "config.json");
}

// Breaks if a config were read otherwise than by transformers.
TEST(LayerEmbeddingsOfAConfig, AreThoseOfTransformers) {
  const HfConfig config = embeddings_config(R"(, "hidden_size_per_layer_input": 6,
      "vocab_size_per_layer_input": 5, "num_kv_shared_layers": 1, "use_double_wide_mlp": true)");
  EXPECT_EQ(config.ple_length, 6);
  EXPECT_FALSE(config.shares_kv(2));
  EXPECT_TRUE(config.shares_kv(3));
  const auto& lengths = std::get<GgufArray>(config.metadata.at("gemma4.feed_forward_length"));
  const auto& numbers = std::get<GgufNumbers<int32_t>>(lengths.items);
  ASSERT_EQ(numbers.size(), 4U);
  EXPECT_EQ(numbers[2], 6);
  EXPECT_EQ(numbers[3], 12);
}

TEST(LayerEmbeddingsOfAConfig, OthersAreRefusedByName) {
  const auto refuses = [](const std::string& more, const std::string& why) {
    EXPECT_THAT([&] { embeddings_config(", " + more); }, ThrowsMessage<Error>(HasSubstr(why)))
        << more;
  };
  refuses(R"("hidden_size_per_layer_input": 6)",
          "'vocab_size_per_layer_input', by its default, is not vocab_size, 5");
  refuses(R"("hidden_size_per_layer_input": 0, "num_kv_shared_layers": 4)",
          "key 'num_kv_shared_layers'");
}

}  // namespace
}  // namespace assay
