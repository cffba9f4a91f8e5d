// Experts beside a dense feed-forward (Gemma 4), from files and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/model.h"
#include "tests/engine/gemma4_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_gemma4;
using testing_support::TinyModel;

constexpr uint32_t kNumExperts = 3;
constexpr uint32_t kInner = 4;

// With three experts of 4, of which a token uses two; gate and up are one tensor.
void become_mixture(TinyModel& model) {
  become_gemma4(model);
  model.ints["gemma4.expert_count"] = kNumExperts;
  model.ints["gemma4.expert_used_count"] = 2;
  model.ints["gemma4.expert_feed_forward_length"] = kInner;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) {
      model.tensors[layer + norm + ".weight"] = {{8}};
    }
    model.tensors[layer + "ffn_gate_inp.weight"] = {{8, kNumExperts}};
    model.tensors[layer + "ffn_gate_inp.scale"] = {{8}};
    model.tensors[layer + "ffn_gate_up_exps.weight"] = {{8, 2 * kInner, kNumExperts}};
    model.tensors[layer + "ffn_down_exps.weight"] = {{kInner, 8, kNumExperts}};
    model.tensors[layer + "ffn_down_exps.scale"] = {{kNumExperts}};
  }
}

class Mixture : public TemporaryFolder {
 protected:
  std::string path() const { return TemporaryFolder::path("model.gguf"); }

  std::unique_ptr<Model> model_with(const std::function<void(TinyModel&)>& change) const {
    TinyModel tiny;
    become_mixture(tiny);
    change(tiny);
    tiny.write(path());
    return std::make_unique<Model>(std::make_shared<Gguf>(path()));
  }

  void expect_rejected(const std::function<void(TinyModel&)>& change,
                       const std::string& message) const {
    EXPECT_THAT([&] { model_with(change); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
};

// Breaks if an expert's rows were taken from another place of the tensor of both.
TEST_F(Mixture, GateAndUpAreHalvesOfEachExpert) {
  const auto model = model_with([](TinyModel&) {});
  const Layer& layer = model->layers[0];
  const Linear& gate = layer.linear(Checkpoint::kFfnGate);
  const Linear& up = layer.linear(Checkpoint::kFfnUp);
  const auto* all = static_cast<const float*>(gate.weight.data);
  for (int64_t expert = 0; expert < kNumExperts; ++expert) {
    EXPECT_EQ(gate.expert(expert, kNumExperts).rows, kInner);
    EXPECT_EQ(gate.expert(expert, kNumExperts).data, all + expert * 2 * kInner * 8);
    EXPECT_EQ(up.expert(expert, kNumExperts).data, all + (expert * 2 + 1) * kInner * 8);
  }
  const auto apart = model_with([](TinyModel& tiny) {
    for (const std::string prefix : {"blk.0.", "blk.1."}) {
      tiny.tensors.erase(prefix + "ffn_gate_up_exps.weight");
      tiny.tensors[prefix + "ffn_gate_exps.weight"] = {{8, kInner, kNumExperts}};
      tiny.tensors[prefix + "ffn_up_exps.weight"] = {{8, kInner, kNumExperts}};
    }
  });
  const Linear& alone = apart->layers[1].linear(Checkpoint::kFfnUp);
  EXPECT_EQ(alone.expert(2, kNumExperts).data,
            static_cast<const float*>(alone.weight.data) + 2 * kInner * 8);
}

// Breaks if a scale were left out, or the router's not divided by the root of 8.
TEST_F(Mixture, HasScalesOfTheRouterAndOfEachExpert) {
  const auto model = model_with([](TinyModel& tiny) {
    tiny.fill["blk.0.ffn_gate_inp.scale"] = 3.0F;
    tiny.fill["blk.0.ffn_down_exps.scale"] = 0.25F;
    tiny.tensors.erase("blk.1.ffn_down_exps.scale");
  });
  EXPECT_FLOAT_EQ(model->layers[0].norm(Checkpoint::kRouterNorm).weight[7], 3.0F / std::sqrt(8.0F));
  EXPECT_EQ(model->layers[0].extra.expert_scales[2], 0.25F);
  EXPECT_EQ(model->layers[1].extra.expert_scales, nullptr) << "as files may have it";
  EXPECT_EQ(model->config().width(Width::kInner), 12);
  EXPECT_EQ(model->config().expert_feed_forward_length, kInner);
}

TEST_F(Mixture, OtherFilesAreRefusedByName) {
  expect_rejected([](TinyModel& m) { m.ints.erase("gemma4.expert_count"); },
                  "layer 0 has experts, and key 'gemma4.expert_count' does not say how many");
  expect_rejected([](TinyModel& m) { m.tensors.erase("blk.1.ffn_gate_inp.scale"); },
                  "tensor 'blk.1.ffn_gate_inp.scale' is missing");
  expect_rejected([](TinyModel& m) { m.tensors.erase("blk.0.pre_ffw_norm_2.weight"); },
                  "tensor 'blk.0.pre_ffw_norm_2.weight' is missing");
  expect_rejected([](TinyModel& m) { m.tensors["blk.0.ffn_down_exps.scale"] = {{2}}; },
                  "tensor 'blk.0.ffn_down_exps.scale' has the shape [2]");
  expect_rejected(
      [](TinyModel& m) {
        m.tensors["blk.0.ffn_gate_up_exps.weight"] = {{8, 7, kNumExperts}};
      },
      "tensor 'blk.0.ffn_gate_up_exps.weight' has the shape [8, 7, 3], the hyperparameters say");
  expect_rejected([](TinyModel& m) { m.fill["blk.1.ffn_down_exps.scale"] = INFINITY; },
                  "tensor 'blk.1.ffn_down_exps.scale' holds inf");
  expect_rejected(
      [](TinyModel& m) {
        m.tensors["blk.0.ffn_up_exps.weight"] = {{8, kInner, 3}};
      },
      "tensor 'blk.0.ffn_up_exps.weight' is not one that Assay uses");
}

HfConfig mixture_config(const std::string& more) {
  return read_hf_config(R"({"model_type": "gemma4_text", "vocab_size": 5, "hidden_size": 8,
                            "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 2,
                            "num_key_value_heads": 2, "intermediate_size": 6,
                            "hidden_size_per_layer_input": 0)" +
                            more + "}",
                        "config.json");
}

// Breaks if a config were read otherwise than by transformers, which reads no experts without
// enable_moe_block.
TEST(MixtureOfAConfig, IsThatOfTransformers) {
  const std::string experts =
      R"(, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 3)";
  EXPECT_EQ(mixture_config(experts).n_experts, 0);
  const HfConfig config = mixture_config(experts + R"(, "enable_moe_block": true)");
  EXPECT_EQ(config.n_experts, 4);
  EXPECT_EQ(std::get<int64_t>(config.metadata.at("gemma4.expert_used_count")), 2);
  EXPECT_EQ(std::get<int64_t>(config.metadata.at("gemma4.expert_feed_forward_length")), 3);
  EXPECT_EQ(config.feed_forward_length, 6);
}

TEST(MixtureOfAConfig, WhatIsMissingIsNamed) {
  const auto refuses = [](const std::string& more, const std::string& why) {
    EXPECT_THAT([&] { mixture_config(R"(, "enable_moe_block": true)" + more); },
                ThrowsMessage<Error>(HasSubstr(why)))
        << more;
  };
  refuses("", "key 'num_experts' is missing");
  refuses(R"(, "num_experts": 4)", "key 'top_k_experts' is missing");
  refuses(R"(, "num_experts": 4, "top_k_experts": 5)", "key 'top_k_experts' is");
  refuses(R"(, "num_experts": 4, "top_k_experts": 2)", "key 'moe_intermediate_size' is missing");
  EXPECT_THAT(
      [] {
        read_hf_config(R"({"model_type": "llama", "vocab_size": 5, "hidden_size": 8,
                           "num_hidden_layers": 2, "num_attention_heads": 4,
                           "intermediate_size": 6, "enable_moe_block": true})",
                       "config.json");
      },
      ThrowsMessage<Error>(HasSubstr("key 'enable_moe_block' asks for what Assay does not")));
}

}  // namespace
}  // namespace assay
