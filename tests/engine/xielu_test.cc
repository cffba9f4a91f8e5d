// The numbers of xIELU: keys of a GGUF file, tensors of a folder.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "tests/support/hf_builder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::HfTensors;
using testing_support::llama;
using testing_support::TinyModel;

float softplus(double x) {
  return static_cast<float>(std::log1p(std::exp(x)));
}

class XieluNumbers : public testing_support::HfFolder {
 protected:
  static TinyModel tiny() {
    TinyModel model;
    model.become("apertus");
    model.tensors.erase("blk.0.ffn_gate.weight");
    for (const char* name : {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}) {
      model.tensors[name] = {{4}};
    }
    model.floats["xielu.alpha_p"] = 0.75F;
    model.float_lists["xielu.alpha_n"] = {-1.5F};
    model.floats["xielu.beta"] = 0.25F;
    model.float_lists["xielu.eps"] = {-0.125F};
    return model;
  }
  Model of_file(const TinyModel& model) const {
    return Model(std::make_shared<Gguf>(model.write(path("apertus.gguf"))));
  }
  static HfTensors tensors() {
    HfTensors all = llama();
    const std::string layer = "model.layers.0.";
    for (const char* name : {"input_layernorm", "post_attention_layernorm", "mlp.gate_proj"}) {
      all.erase(layer + name + ".weight");
    }
    for (const char* name : {"attention_layernorm", "feedforward_layernorm"}) {
      all[layer + name + ".weight"] = {{8}};
    }
    for (const char* name : {"q_norm", "k_norm"}) {
      all[fmt::format("{}self_attn.{}.weight", layer, name)] = {{4}};
    }
    const std::string numbers = layer + "mlp.act_fn.";
    all[numbers + "alpha_p"] = {{1}, "F32", {0.75F}};
    all[numbers + "alpha_n"] = {{1}, "BF16", {-1.5F}};
    all[numbers + "beta"] = {{}, "F32", {0.25F}};
    all[numbers + "eps"] = {{}, "BF16", {-0.125F}};
    return all;
  }
  static std::string config(const std::string& more = "") {
    return testing_support::llama_config(R"(, "rope_parameters": {"rope_theta": 1e4})" + more,
                                         "apertus");
  }
  const Xielu right_ = {softplus(0.75), 0.25F + softplus(-1.5), 0.25F, -0.125F};
};

// Breaks if a number were left out or taken as it is stored, or a list of another length were read.
TEST_F(XieluNumbers, AreThoseOfTheFile) {
  const Xielu read = of_file(tiny()).config().layer(0).xielu;
  EXPECT_EQ(read.alpha_p, right_.alpha_p);
  EXPECT_FLOAT_EQ(read.alpha_n, right_.alpha_n);
  EXPECT_EQ(read.beta, right_.beta);
  EXPECT_EQ(read.eps, right_.eps);
  TinyModel without = tiny();
  without.floats.erase("xielu.beta");
  EXPECT_THAT([&] { of_file(without); },
              ThrowsMessage<Error>(HasSubstr("key 'xielu.beta' is missing")));
  TinyModel two = tiny();
  two.float_lists["xielu.eps"] = {-0.125F, -0.5F};
  EXPECT_THAT([&] { of_file(two); },
              ThrowsMessage<Error>(HasSubstr("key 'xielu.eps' has 2 entries for 1 layers")));
  TinyModel infinite = tiny();
  infinite.floats["xielu.alpha_p"] = INFINITY;
  EXPECT_THAT([&] { of_file(infinite); },
              ThrowsMessage<Error>(HasSubstr("key 'xielu.alpha_p' has inf")));
}

// Breaks if a folder's tensors were ignored, or if it ran without them.
TEST_F(XieluNumbers, AreTheTensorsOfAFolder) {
  write(config(), tensors());
  EXPECT_EQ(Model(std::make_shared<Gguf>(folder_)).config().layer(0).xielu,
            of_file(tiny()).config().layer(0).xielu);
  HfTensors without = tensors();
  without.erase("model.layers.0.mlp.act_fn.eps");
  EXPECT_THAT(refusal(config(), without),
              HasSubstr("tensor 'model.layers.0.mlp.act_fn.eps' is missing"));
  HfTensors two = tensors();
  two["model.layers.0.mlp.act_fn.alpha_p"] = {{2}};
  EXPECT_THAT(refusal(config(), two), HasSubstr("act_fn.alpha_p' is not one number"));
  EXPECT_THAT(refusal(testing_support::llama_config(R"(, "hidden_act": "xielu")"), llama()),
              HasSubstr("key 'hidden_act' is 'xielu', which does not belong to this model_type"));
}

}  // namespace
}  // namespace assay
