#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/hf/config.h"
#include "engine/kv_cache.h"
#include "engine/session.h"
#include "tests/support/glm_dsa_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_glm_dsa;
using testing_support::TinyModel;

class ModelOfIndexers : public TemporaryFolder {
 protected:
  Model load(const std::function<void(TinyModel&)>& edit = [](TinyModel&) {}) {
    TinyModel tiny;
    become_glm_dsa(tiny);
    edit(tiny);
    return Model(std::make_shared<Gguf>(tiny.write(path("model.gguf"))));
  }
  void expect_rejected(const std::function<void(TinyModel&)>& edit, const std::string& message) {
    EXPECT_THAT([&] { load(edit); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
};

const std::vector<int32_t> kTokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};

std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

TEST_F(ModelOfIndexers, LayersSeeWhatTheLastOneHasChosen) {
  const Model model = load();
  const ModelConfig& config = model.config();
  EXPECT_EQ(config.layer(0).index_layer, -1);
  EXPECT_EQ(config.layer(1).index_layer, 0);
  EXPECT_EQ(config.layer(2).index_layer, -1);
  EXPECT_EQ(config.index, (IndexShape{3, 4, 2}));
  const KvCache cache(config, KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.beside_bytes(0, 5), 5U * 4 * 4) << "f32, whatever keys are";
  EXPECT_EQ(cache.beside_bytes(1, 5), 0U);
}

// Breaks if a token chose otherwise alone than in a batch, or a restored session lacked the keys by
// which positions are chosen.
TEST_F(ModelOfIndexers, SurfacesHaveTheSameBits) {
  const Model model = load();
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    Session whole(model, *kernels, {.kv_type = type});
    const std::vector<float> expected = copy(whole.eval(kTokens));
    Session alone(model, *kernels, {.kv_type = type});
    std::vector<float> got;
    for (const int32_t token : kTokens) got = copy(alone.eval({&token, 1}));
    EXPECT_EQ(got, expected);
    Session chunks(model, *kernels, {.batch = 4, .kv_type = type});
    EXPECT_EQ(copy(chunks.eval(kTokens)), expected);
    Session first(model, *kernels, {.kv_type = type});
    first.eval(std::span(kTokens).first(6));
    first.save(path("session"));
    Session restored(model, *kernels, {.kv_type = type});
    restored.restore(path("session"));
    EXPECT_EQ(copy(restored.eval(std::span(kTokens).subspan(6))), expected);
  }
}

// Breaks if the choice had no effect, or one of all positions had one.
TEST_F(ModelOfIndexers, AChoiceOfAllIsNone) {
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const auto logits = [&](uint32_t top_k) {
    const Model model =
        load([&](TinyModel& tiny) { tiny.ints["glm-dsa.attention.indexer.top_k"] = top_k; });
    Session session(model, *kernels, {});
    return copy(session.eval(kTokens));
  };
  const std::vector<float> all = logits(9);
  EXPECT_EQ(logits(1U << 30U), all) << "no more than the context has";
  EXPECT_NE(logits(8), all);
  EXPECT_NE(logits(1), all);
}

TEST_F(ModelOfIndexers, RejectsWhatNoIndexerCanBe) {
  const auto key = [](const char* name, uint32_t value) {
    return [=](TinyModel& tiny) {
      tiny.ints[std::string("glm-dsa.attention.indexer.") + name] = value;
    };
  };
  expect_rejected(key("top_k", 0), "key 'glm-dsa.attention.indexer.top_k' is 0");
  expect_rejected(key("top_k", 1U << 31U), "key 'glm-dsa.attention.indexer.top_k' is 2147483648");
  expect_rejected(key("head_count", 0), "key 'glm-dsa.attention.indexer.head_count' is 0");
  expect_rejected(key("key_length", 0), "key 'glm-dsa.attention.indexer.key_length' is 0");
  expect_rejected(key("key_length", 1),
                  "key 'glm-dsa.attention.indexer.key_length' is 1, less than the 2 elements");
  expect_rejected([](TinyModel& tiny) { tiny.ints.erase("glm-dsa.attention.indexer.top_k"); },
                  "key 'glm-dsa.attention.indexer.top_k' is missing");
  expect_rejected(
      [](TinyModel& tiny) {
        tiny.int_lists["glm-dsa.attention.indexer.types"] = {1, 1, 1};
      },
      "key 'glm-dsa.attention.indexer.types' is true in layer 1, which lacks");
  expect_rejected(
      [](TinyModel& tiny) {
        tiny.int_lists["glm-dsa.attention.indexer.types"] = {1, 0, 0};
      },
      "key 'glm-dsa.attention.indexer.types' is false in layer 2, which has");
  expect_rejected([](TinyModel& tiny) { tiny.tensors.erase("blk.0.indexer.attn_k.weight"); },
                  "tensor 'blk.0.indexer.attn_k.weight' is missing");
  expect_rejected([](TinyModel& tiny) { tiny.tensors.erase("blk.2.indexer.k_norm.bias"); },
                  "tensor 'blk.2.indexer.k_norm.bias' is missing");
}

// Breaks if another layer chose than in transformers, by a list, by letters or by a period.
TEST(HfIndexer, LayersThatChooseAreThoseOfTheConfig) {
  const auto layers = [](const std::string& more) {
    return read_hf_config(
               R"({"model_type": "glm_moe_dsa", "vocab_size": 5, "hidden_size": 8,
                   "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 6,
                   "max_position_embeddings": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 4)" +
                   more + "}",
               "config.json")
        .indexed;
  };
  using Layers = std::vector<bool>;
  EXPECT_EQ(layers(""), (Layers{true, true, true, true}));
  EXPECT_EQ(layers(R"(, "indexer_types": ["full", "shared", "full", "shared"])"),
            (Layers{true, false, true, false}));
  EXPECT_EQ(layers(R"(, "index_topk_pattern": "FSSF", "index_topk_freq": 3)"),
            (Layers{true, false, false, true}));
  EXPECT_EQ(layers(R"(, "index_topk_freq": 2)"), (Layers{true, true, false, true}));
  const auto expect_refused = [&](const std::string& more, const std::string& message) {
    EXPECT_THAT([&] { layers(more); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_refused(R"(, "index_topk": 0)", "key 'index_topk' is not a whole number from 1");
  expect_refused(R"(, "index_n_heads": "8")", "key 'index_n_heads' is not a whole number");
  expect_refused(R"(, "indexer_types": ["full"])",
                 "key 'indexer_types' has 1 entries for 4 layers");
  expect_refused(R"(, "indexer_types": ["shared", "full", "full", "full"])",
                 "key 'indexer_types' leaves the first layer without one");
  expect_refused(R"(, "index_topk_freq": 2, "index_skip_topk_offset": 0)",
                 "key 'index_topk_freq' leaves the first layer without one");
  expect_refused(R"(, "index_topk_pattern": "FSXF")", "key 'index_topk_pattern' has 'X'");
}

}  // namespace
}  // namespace assay
