// Several residual streams, LAuReL and cutoffs of activations (Gemma 3n), from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/model.h"
#include "engine/session.h"
#include "tests/support/gemma3n_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_gemma3n;
using testing_support::TinyModel;

const std::vector<int32_t> kPrompt = {1, 4, 2, 0, 3, 3, 1, 2, 4};

std::vector<float> copied(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

// What each layer gives, by position.
struct LayerOutputs final : Probe {
  bool wants(Checkpoint checkpoint, int /*layer*/) override {
    return checkpoint == Checkpoint::kOutput;
  }
  void observe(Checkpoint /*checkpoint*/, int layer, int64_t first, int64_t n_tokens, int64_t width,
               const float* values) override {
    for (int64_t t = 0; t < n_tokens; ++t) {
      rows[{layer, first + t}] = {values + t * width, values + (t + 1) * width};
    }
  }
  std::map<std::pair<int, int64_t>, std::vector<float>> rows;
};

// Gives each layer what it is about to read anyway.
struct SameLayerInput final : LayerInput {
  explicit SameLayerInput(const LayerOutputs& of) : outputs(of) {}
  bool replace(int layer, int64_t first, int64_t n_tokens, int64_t width, float* values) override {
    for (int64_t t = 0; layer > 0 && t < n_tokens; ++t) {
      const std::vector<float>& row = outputs.rows.at({layer - 1, first + t});
      EXPECT_EQ(static_cast<int64_t>(row.size()), width);
      EXPECT_EQ(copied({values + t * width, static_cast<size_t>(width)}), row);
    }
    return layer > 0;
  }
  const LayerOutputs& outputs;
};

class ModelOfStreams : public TemporaryFolder {
 protected:
  std::unique_ptr<Model> model_with(const std::function<void(TinyModel&)>& change) const {
    TinyModel tiny;
    become_gemma3n(tiny);
    change(tiny);
    const std::string file = path("model.gguf");
    tiny.write(file);
    return std::make_unique<Model>(std::make_shared<Gguf>(file));
  }
  std::vector<float> logits(const Model& model) {
    return copied(Session(model, *kernels_, {}).eval(kPrompt));
  }

  ThreadPool pool_{1};
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(pool_);
};

// Breaks if the streams were made in another layer than the first, or merged before the last.
TEST_F(ModelOfStreams, TheFirstLayerMakesThemAndTheLastMakesOne) {
  const auto model = model_with([](TinyModel&) {});
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.n_streams, 3);
  EXPECT_EQ(config.laurel_rank, 2);
  const auto has = [&](int64_t layer, Checkpoint checkpoint) {
    return find_spec(config.layer(layer).ops, checkpoint) != nullptr;
  };
  for (int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(has(layer, Checkpoint::kStreams), layer == 0) << layer;
    EXPECT_EQ(has(layer, Checkpoint::kUnembedded), layer == 2) << layer;
    EXPECT_EQ(has(layer, Checkpoint::kFfnCutoff), layer != 1) << layer;
    EXPECT_EQ(has(layer, Checkpoint::kK), layer != 2) << layer;
  }
  EXPECT_EQ(config.layer(0).cutoff, 0.5F);
  EXPECT_EQ(config.entering_width(0), 8);
  EXPECT_EQ(config.entering_width(2), 24);
  EXPECT_EQ(config.entering_width(3), 8);
  const Layer& last = model->layers[2];
  EXPECT_EQ(last.linear(Checkpoint::kUnembedded).weight.rows, 16);
  EXPECT_EQ(last.linear(Checkpoint::kAltupRouter).weight.data,
            last.linear(Checkpoint::kCorrectRouter).weight.data)
      << "one router serves prediction and correction";
}

TEST_F(ModelOfStreams, OneLayerMakesAndMergesThem) {
  const auto model = model_with([](TinyModel& tiny) {
    std::erase_if(tiny.tensors, [](const auto& tensor) {
      return tensor.first.starts_with("blk.1.") || tensor.first.starts_with("blk.2.");
    });
    tiny.ints["gemma3n.block_count"] = 1;
    tiny.ints["gemma3n.attention.shared_kv_layers"] = 0;
    tiny.int_lists["gemma3n.attention.sliding_window_pattern"] = {1};
    tiny.float_lists["gemma3n.activation_sparsity_scale"] = {0.5F};
    tiny.tensors["per_layer_token_embd.weight"] = {{6, 5}};
    tiny.tensors["per_layer_model_proj.weight"] = {{8, 6}};
  });
  const std::vector<OpSpec>& ops = model->config().layer(0).ops;
  EXPECT_EQ(ops.front().out, Checkpoint::kAltupProj);
  EXPECT_EQ(ops.back().step, StreamStep::kMerge);
  EXPECT_EQ(logits(*model).size(), 5U);
}

// Breaks if a token alone had other streams than in a batch, or a batch's tokens each other's.
TEST_F(ModelOfStreams, HasTheSameBitsOnAllSurfaces) {
  const auto model = model_with([](TinyModel&) {});
  const std::vector<float> expected = logits(*model);
  Session alone(*model, *kernels_, {});
  std::vector<float> got;
  LayerOutputs one;
  for (const int32_t token : kPrompt) got = copied(alone.eval({&token, 1}, &one));
  EXPECT_EQ(got, expected);
  LayerOutputs all;
  Session chunks(*model, *kernels_, {.batch = 4});
  EXPECT_EQ(copied(chunks.eval(kPrompt, &all)), expected);
  EXPECT_EQ(one.rows, all.rows);
  EXPECT_EQ((all.rows.at({0, 3}).size()), 24U);
  EXPECT_EQ((all.rows.at({2, 3}).size()), 8U);
  Session first(*model, *kernels_, {});
  first.eval(std::span(kPrompt).first(6));
  first.save(path("session"));
  Session restored(*model, *kernels_, {});
  restored.restore(path("session"));
  EXPECT_EQ(copied(restored.eval(std::span(kPrompt).subspan(6))), expected);
  SameLayerInput input(all);
  Session replaced(*model, *kernels_, {.batch = 4});
  EXPECT_EQ(copied(replaced.eval(kPrompt, nullptr, &input)), expected);
}

// Breaks if a part of the network were left out.
TEST_F(ModelOfStreams, EachTensorMatters) {
  const std::vector<float> expected = logits(*model_with([](TinyModel&) {}));
  for (const char* name :
       {"altup_proj", "altup_unembd_proj", "blk.0.altup_router", "blk.2.altup_router_norm",
        "blk.1.altup_predict_coef", "blk.2.altup_correct_coef", "blk.0.altup_correct_scale",
        "blk.1.laurel_l", "blk.1.laurel_r", "blk.2.laurel_post_norm", "blk.2.inp_gate",
        "per_layer_token_embd"}) {
    const auto model =
        model_with([&](TinyModel& tiny) { tiny.fill[std::string(name) + ".weight"] = 0.125F; });
    EXPECT_NE(logits(*model), expected) << name;
  }
}

// Breaks if tokens behind the table of layers had a row of something else than the first token.
TEST_F(ModelOfStreams, TokensWithoutARowHaveTheFirstOnes) {
  const auto with = [&](uint64_t rows, std::vector<int32_t> tokens) {
    const auto model = model_with([&](TinyModel& tiny) {
      tiny.tensors["per_layer_token_embd.weight"] = {{18, rows}};
      tiny.fill["token_embd.weight"] = 0.25F;  // so that the layers' alone tells tokens apart
    });
    return copied(Session(*model, *kernels_, {}).eval(tokens));
  };
  EXPECT_EQ(with(4, {1, 2, 4}), with(4, {1, 2, 0}));
  EXPECT_NE(with(5, {1, 2, 4}), with(5, {1, 2, 0}));
  EXPECT_NE(with(4, {1, 2, 3}), with(4, {1, 2, 0}));
}

// Breaks if files of llama.cpp's own defaults were read as something else.
TEST_F(ModelOfStreams, FilesThatDoNotSayHaveTheCutoffsOfPublishedModels) {
  const auto model = model_with(
      [](TinyModel& tiny) { tiny.float_lists.erase("gemma3n.activation_sparsity_scale"); });
  EXPECT_EQ(model->config().layer(2).cutoff, 1.6448533535003662F);
  EXPECT_NE(find_spec(model->config().layer(1).ops, Checkpoint::kFfnCutoff), nullptr);
}

TEST_F(ModelOfStreams, OtherFilesAreRefusedByName) {
  const struct {
    std::function<void(TinyModel&)> change;
    const char* message;
  } kCases[] = {{[](TinyModel& m) { m.ints["gemma3n.altup.active_idx"] = 1; },
                 "key 'gemma3n.altup.active_idx'"},
                {[](TinyModel& m) { m.ints["gemma3n.altup.num_inputs"] = 1; },
                 "key 'gemma3n.altup.num_inputs' is 1"},
                {[](TinyModel& m) { m.ints["gemma3n.altup.num_inputs"] = 17; },
                 "key 'gemma3n.altup.num_inputs'"},
                {[](TinyModel& m) { m.ints["gemma3n.altup.num_inputs"] = 4; },
                 "tensor 'altup_proj.weight' has the shape [8, 8, 2]"},
                {[](TinyModel& m) { m.ints["gemma3n.embedding_length_per_layer_input"] = 0; },
                 "key 'gemma3n.embedding_length_per_layer_input' is missing or 0"},
                {[](TinyModel& m) { m.float_lists["gemma3n.activation_sparsity_scale"] = {1.0F}; },
                 "key 'gemma3n.activation_sparsity_scale' has 1 entries for 3 layers"},
                {[](TinyModel& m) { m.float_lists["gemma3n.activation_sparsity_scale"][1] = NAN; },
                 "key 'gemma3n.activation_sparsity_scale' has a layer of nan"},
                {[](TinyModel& m) { m.tensors.erase("blk.1.laurel_r.weight"); },
                 "tensor 'blk.1.laurel_r.weight' is missing"},
                {[](TinyModel& m) { m.tensors.erase("blk.2.altup_correct_scale.weight"); },
                 "tensor 'blk.2.altup_correct_scale.weight' is missing"},
                {[](TinyModel& m) { m.tensors.erase("altup_unembd_proj.weight"); },
                 "tensor 'altup_unembd_proj.weight' is missing"},
                {[](TinyModel& m) {
                   m.tensors["per_layer_token_embd.weight"] = {{18, 6}};
                 },
                 "tensor 'per_layer_token_embd.weight' has 6 rows for 5 tokens"}};
  for (const auto& [change, message] : kCases) {
    EXPECT_THAT([&] { model_with(change); }, ThrowsMessage<Error>(HasSubstr(message))) << message;
  }
}

}  // namespace
}  // namespace assay
