// Heads of another size and number in layers with a window (Gemma 4), from files and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_gemma4;
using testing_support::TinyModel;

class WindowedHeads : public TemporaryFolder {
 protected:
  std::string path() const { return TemporaryFolder::path("model.gguf"); }

  void expect_rejected(const std::function<void(TinyModel&)>& change, const std::string& message) {
    TinyModel tiny;
    become_gemma4(tiny);
    change(tiny);
    tiny.write(path());
    EXPECT_THAT([&] { Model(std::make_shared<Gguf>(path())); },
                ThrowsMessage<Error>(HasSubstr(message)));
  }
};

// Breaks if sizes of one kind of layers were taken for those of the other.
TEST_F(WindowedHeads, AreThoseOfTheLayer) {
  TinyModel tiny;
  become_gemma4(tiny);
  tiny.write(path());
  const Model model(std::make_shared<Gguf>(path()));
  const ModelConfig& config = model.config();
  EXPECT_EQ(config.heads(0), (HeadSizes{2, 2, 2, 2}));
  EXPECT_EQ(config.heads(1), (HeadSizes{1, 4, 4, 4}));
  EXPECT_EQ(config.width(Width::kQ, config.layer(0)), 4);
  EXPECT_EQ(config.width(Width::kQ, config.layer(1)), 8);
  EXPECT_EQ(config.attention_shape(0).window, 5);
  EXPECT_EQ(config.attention_shape(0).scale, 1.0F);
  EXPECT_EQ(config.attention_shape(1).head_dim, 4);
  EXPECT_EQ(config.local_rotary_dim(), 2);
  const OpSpec* values = find_spec(config.layer(0).ops, Checkpoint::kVNorm);
  const OpSpec* keys = find_spec(config.layer(1).ops, Checkpoint::kVNorm);
  EXPECT_EQ(values->in.front(), Checkpoint::kV);
  EXPECT_EQ(keys->in.front(), Checkpoint::kK);
  EXPECT_THAT(std::vector<float>(model.layers[0].norm(Checkpoint::kVNorm).weight,
                                 model.layers[0].norm(Checkpoint::kVNorm).weight + 2),
              Each(1.0F));
  EXPECT_EQ(model.layers[1].extra.scale, 0.5F);
  const KvCache cache(config, KvType::kF32, 3, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 1), 4U * 4);
  EXPECT_EQ(cache.v_bytes(1, 1), 4U * 4);
}

// Breaks if a file without the tensor, as converters of older models write it, were refused.
TEST_F(WindowedHeads, ALayerWithoutAScaleIsNotScaled) {
  TinyModel tiny;
  become_gemma4(tiny);
  tiny.tensors.erase("blk.1.layer_output_scale.weight");
  tiny.write(path());
  EXPECT_EQ(Model(std::make_shared<Gguf>(path())).layers[1].extra.scale, 1.0F);
}

TEST_F(WindowedHeads, OtherFilesAreRefusedByName) {
  expect_rejected(
      [](TinyModel& m) {
        m.int_lists["gemma4.attention.head_count_kv"] = {3, 1};
      },
      "key 'gemma4.attention.head_count_kv' is 3, which does not divide the 2 query");
  expect_rejected(
      [](TinyModel& m) {
        m.int_lists["gemma4.attention.head_count_kv"] = {2, 0};
      },
      "key 'gemma4.attention.head_count_kv' is 0 in layer 1, which has attention");
  expect_rejected(
      [](TinyModel& m) {
        m.int_lists["gemma4.attention.head_count_kv"] = {-1, 1};
      },
      "key 'gemma4.attention.head_count_kv' is -1 in a layer");
  expect_rejected(
      [](TinyModel& m) {
        m.int_lists["gemma4.attention.sliding_window_pattern"] = {1, 1};
      },
      "key 'gemma4.attention.head_count_kv' is 2 in one layer and 1 in another");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.attention.value_length_swa"] = 4; },
                  "key 'gemma4.attention.value_length_swa' is 4 and the key length 2");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.rope.dimension_count_swa"] = 4; },
                  "key 'gemma4.rope.dimension_count_swa' is 4, allowed are 1 to 2");
  expect_rejected([](TinyModel& m) { m.ints["gemma4.rope.dimension_count_swa"] = 1; },
                  "key 'gemma4.rope.dimension_count_swa' is 1, which is odd");
  expect_rejected(
      [](TinyModel& m) {
        m.ints["gemma4.attention.key_length_swa"] = 4;
        m.ints["gemma4.attention.value_length_swa"] = 4;
      },
      "the hyperparameters say");
  expect_rejected([](TinyModel& m) { m.fill["blk.0.layer_output_scale.weight"] = NAN; },
                  "tensor 'blk.0.layer_output_scale.weight' holds nan");
}

// The keys in `more` take the place of others.
HfConfig windowed_config(const std::string& more) {
  std::string json = R"({"model_type": "gemma4_text", "vocab_size": 5, "hidden_size": 8,
                         "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 2,
                         "num_key_value_heads": 2, "intermediate_size": 6)" +
                     more;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (more.find(key) == more.npos) json += ", \"" + key + "\": " + value;
  };
  add("hidden_size_per_layer_input", "0");
  add("layer_types", R"(["full_attention", "sliding_attention", "full_attention"])");
  return read_hf_config(json + "}", "config.json");
}

// Breaks if heads were others than transformers', by its older keys or by those of each layer.
TEST(WindowedHeadsOfAConfig, AreThoseOfTransformers) {
  const auto whole = [](const HfConfig& config, const char* key) {
    return std::get<int64_t>(config.metadata.at(std::string("gemma4.") + key));
  };
  const HfConfig usual = windowed_config(R"(, "global_head_dim": 8)");
  EXPECT_EQ(usual.head_dim, 8);
  EXPECT_EQ(usual.rotary_dim, 8);
  EXPECT_THAT(usual.rope_factors.at("rope_freqs.weight"), ElementsAre(1.0F, 1e30F, 1e30F, 1e30F));
  EXPECT_EQ(whole(usual, "attention.key_length"), 8);
  EXPECT_EQ(whole(usual, "attention.key_length_swa"), 2);
  EXPECT_EQ(whole(usual, "rope.dimension_count_swa"), 2);
  EXPECT_THAT(usual.parts.values, Each(true));
  EXPECT_EQ(windowed_config("").head_dim, 512) << "what transformers takes";
  const HfConfig of_layers = windowed_config(R"(, "attention_k_eq_v": true, "per_layer_config": {
      "0": {"head_dim": 4, "num_key_value_heads": 1},
      "2": {"head_dim": 4, "num_key_value_heads": 1}})");
  EXPECT_EQ(of_layers.head_dim, 4);
  EXPECT_EQ(of_layers.parts.values, (std::vector<bool>{false, true, false}));
  const HfConfig last = windowed_config(R"(, "layer_types": null)");
  EXPECT_EQ(last.windowed, (std::vector<bool>{true, true, false})) << "the last never has one";
}

TEST(WindowedHeadsOfAConfig, OthersAreRefusedByName) {
  const auto refuses = [](const std::string& more, const std::string& why) {
    EXPECT_THAT([&] { windowed_config(", " + more); }, ThrowsMessage<Error>(HasSubstr(why)))
        << more;
  };
  const std::string layers = R"("per_layer_config": )";
  refuses(layers + R"({"0": {"head_dim": 4}})", "key '2' has other heads than layers of its kind");
  refuses(layers + R"({"1": {"head_dim": 4}})", "key '1' has other heads than layers of its kind");
  refuses(layers + R"({"3": {"head_dim": 4}})", "key '3' is not the number of one of 3 layers");
  refuses(layers + R"({"x": {}})", "key 'x' is not the number of one of 3 layers");
  refuses(layers + R"({"0": {"sliding_window": 4}})", "key 'sliding_window' asks for what Assay");
  refuses(layers + R"({"0": {"head_dim": -1}})", "key 'head_dim' is not a whole number");
  refuses(layers + "[]", "is not a JSON object");
  refuses(R"("global_head_dim": null)", "key 'global_head_dim' is null");
  refuses(R"("use_bidirectional_attention": "all")", "key 'use_bidirectional_attention'");
  EXPECT_EQ(windowed_config(R"(, "use_bidirectional_attention": "vision")").n_layers, 3);
}

}  // namespace
}  // namespace assay
