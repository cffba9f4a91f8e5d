#include "tests/support/mamba_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/session.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_mamba;
using testing_support::TinyModel;

// Two layers: Mamba-2 with four heads that read two groups, and attention.
void become_granite_hybrid(TinyModel& model) {
  model.become("granitehybrid");
  model.ints["granitehybrid.block_count"] = 2;
  model.ints["granitehybrid.ssm.conv_kernel"] = 3;
  model.ints["granitehybrid.ssm.state_size"] = 3;
  model.ints["granitehybrid.ssm.group_count"] = 2;
  model.ints["granitehybrid.ssm.time_step_rank"] = 4;
  model.ints["granitehybrid.ssm.inner_size"] = 8;
  const int64_t kv_heads = model.ints["granitehybrid.attention.head_count_kv"];
  model.ints.erase("granitehybrid.attention.head_count_kv");
  model.int_lists["granitehybrid.attention.head_count_kv"] = {0, static_cast<int>(kv_heads)};
  const auto attention = model.tensors;
  for (const auto& [name, tensor] : attention) {
    if (name.starts_with("blk.0.")) model.tensors["blk.1." + name.substr(6)] = tensor;
  }
  for (const char* part : {"q", "k", "v", "output"}) {
    model.tensors.erase(std::string("blk.0.attn_") + part + ".weight");
  }
  model.tensors["blk.0.ssm_in.weight"] = {{8, 8 + 20 + 4}};
  model.tensors["blk.0.ssm_conv1d.weight"] = {{3, 20}};
  model.tensors["blk.0.ssm_conv1d.bias"] = {{20}};
  model.tensors["blk.0.ssm_a"] = model.tensors["blk.0.ssm_d"] = {{1, 4}};
  model.fill["blk.0.ssm_a"] = -0.5F;
  model.tensors["blk.0.ssm_dt.bias"] = {{4}};
  model.tensors["blk.0.ssm_norm.weight"] = {{4, 2}};
  model.tensors["blk.0.ssm_out.weight"] = {{8, 8}};
}

// One layer with attention and Mamba-2 of the same sizes.
void become_falcon_h1(TinyModel& model) {
  model.become("falcon-h1");
  model.ints["falcon-h1.ssm.conv_kernel"] = 3;
  model.ints["falcon-h1.ssm.state_size"] = 3;
  model.ints["falcon-h1.ssm.group_count"] = 2;
  model.ints["falcon-h1.ssm.time_step_rank"] = 4;
  model.ints["falcon-h1.ssm.inner_size"] = 8;
  model.tensors["blk.0.ssm_in.weight"] = {{8, 8 + 20 + 4}};
  model.tensors["blk.0.ssm_conv1d.weight"] = {{3, 20}};
  model.tensors["blk.0.ssm_a"] = model.tensors["blk.0.ssm_d"] = {{1, 4}};
  model.fill["blk.0.ssm_a"] = -0.5F;
  model.tensors["blk.0.ssm_dt.bias"] = {{4}};
  model.tensors["blk.0.ssm_out.weight"] = {{8, 8}};
  model.tensors["blk.0.ffn_norm"] = model.tensors["blk.0.ffn_norm.weight"];
  model.tensors.erase("blk.0.ffn_norm.weight");
}

class ModelOfMamba : public TemporaryFolder {
 protected:
  std::string path() const { return TemporaryFolder::path("model.gguf"); }
};

// Breaks if the gate, what is convolved, and the steps were other rows of their product.
TEST_F(ModelOfMamba, KeepsAStateAndTakesItsProductApart) {
  TinyModel tiny;
  become_granite_hybrid(tiny);
  tiny.write(path());
  const auto gguf = std::make_shared<Gguf>(path());
  const Model model(gguf);
  EXPECT_EQ(model.config().delta, (DeltaShape{2, 4, 3, 2, true}));
  EXPECT_NE(find_spec(model.config().layer(0).ops, Checkpoint::kSsm), nullptr);
  EXPECT_NE(find_spec(model.config().layer(1).ops, Checkpoint::kAttn), nullptr);
  const auto* whole =
      static_cast<const void*>(gguf->find_tensor("blk.0.ssm_in.weight")->data.data());
  const Layer& layer = model.layers[0];
  EXPECT_EQ(layer.linear(Checkpoint::kLinearZ).weight.data, whole);
  EXPECT_EQ(layer.linear(Checkpoint::kLinearZ).weight.rows, 8);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmXbc).weight.rows, 20);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmDt).weight.rows, 4);
  EXPECT_EQ(static_cast<const float*>(layer.linear(Checkpoint::kSsmDt).weight.data),
            static_cast<const float*>(whole) + ptrdiff_t{28} * 8);
  EXPECT_NE(layer.extra.conv_bias, nullptr);
  EXPECT_NE(layer.extra.skip, nullptr);
  const KvCache cache(model.config(), KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 5), 5U * 20 * 4) << "as f32, whatever keys are kept as";
  EXPECT_EQ(cache.v_bytes(0, 5), 0U);
  EXPECT_EQ(cache.state_bytes(0), 4U * 3 * 2 * 4);
  EXPECT_EQ(cache.state_bytes(1), 0U);
}

// Breaks if what the convolution sums stood where keys do, or the norm needed a tensor.
TEST_F(ModelOfMamba, StandsBesideAttention) {
  TinyModel tiny;
  become_falcon_h1(tiny);
  tiny.write(path());
  const Model model(std::make_shared<Gguf>(path()));
  const LayerConfig& layer = model.config().layer(0);
  EXPECT_NE(find_spec(layer.ops, Checkpoint::kAttn), nullptr);
  EXPECT_NE(find_spec(layer.ops, Checkpoint::kSsmGated), nullptr);
  EXPECT_EQ(find_spec(layer.ops, Checkpoint::kSsmNorm), nullptr);
  const KvCache cache(model.config(), KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 5), static_cast<size_t>(5 * model.config().width(Width::kKv) * 2));
  EXPECT_EQ(cache.beside_bytes(0, 5), 5U * 20 * 4) << "as f32, whatever keys are kept as";
  EXPECT_EQ(cache.state_bytes(0), 4U * 3 * 2 * 4);
  EXPECT_EQ(cache.type(0), KvType::kF16);
  EXPECT_EQ(cache.of_other(0).type, KvType::kF32);
  tiny.tensors["blk.0.ssm_norm.weight"] = {{4, 2}};
  tiny.write(path());
  const Model normed(std::make_shared<Gguf>(path()));
  EXPECT_NE(find_spec(normed.config().layer(0).ops, Checkpoint::kSsmNorm), nullptr);
  EXPECT_EQ(find_spec(normed.config().layer(0).ops, Checkpoint::kSsmGated), nullptr);
}

// Breaks if the parts of a product were other rows, or a channel had other decays.
TEST_F(ModelOfMamba, OfTheFirstHasADecayForEachElementOfAState) {
  TinyModel tiny;
  become_mamba(tiny);
  tiny.write(path());
  const auto gguf = std::make_shared<Gguf>(path());
  const Model model(gguf);
  EXPECT_EQ(model.config().delta, (DeltaShape{1, 16, 3, 1, false, true}));
  EXPECT_EQ(model.config().delta.n_decays(), 48);
  const Layer& layer = model.layers[0];
  EXPECT_EQ(layer.linear(Checkpoint::kSsmX).weight.rows, 16);
  EXPECT_EQ(layer.linear(Checkpoint::kLinearZ).weight.rows, 16);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmDtIn).weight.rows, 2);
  const auto* whole =
      reinterpret_cast<const float*>(gguf->find_tensor("blk.0.ssm_x.weight")->data.data());
  EXPECT_EQ(layer.linear(Checkpoint::kSsmB).weight.data, whole + ptrdiff_t{2} * 16);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmC).weight.data, whole + ptrdiff_t{5} * 16);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmStep).weight.columns, 2);
  EXPECT_EQ(layer.linear(Checkpoint::kSsmStep).bias, nullptr) << "the scan adds it";
  EXPECT_NE(layer.extra.dt, nullptr);
  const KvCache cache(model.config(), KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 5), 5U * 16 * 4) << "as f32, whatever keys are kept as";
  EXPECT_EQ(cache.state_bytes(0), 16U * 3 * 4);
}

// Breaks if norms without weights were in files that do not say so, or had the eps of the others.
TEST_F(ModelOfMamba, OfTheFirstHasNormsWhereTheFileSaysSo) {
  TinyModel tiny;
  become_mamba(tiny);
  const auto config = [&] {
    tiny.write(path());
    return Model(std::make_shared<Gguf>(path())).config();
  };
  EXPECT_EQ(config().find(Checkpoint::kSsmBNorm), nullptr);
  tiny.booleans["mamba.ssm.dt_b_c_rms"] = true;
  const ModelConfig normed = config();
  const OpSpec* norm = normed.find(Checkpoint::kSsmBNorm);
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(normed.eps_of(*norm), 1e-6F);
  EXPECT_EQ(normed.eps_of(*normed.find(Checkpoint::kAttnNorm)), normed.norm_eps);
  tiny.floats["assay.mixer_rms_eps"] = 0.25F;
  EXPECT_EQ(config().eps_of(*norm), 0.25F);
  tiny.floats["assay.mixer_rms_eps"] = 0.0F;
  EXPECT_THAT([&] { config(); },
              ThrowsMessage<Error>(HasSubstr("key 'assay.mixer_rms_eps' is 0, which is not a "
                                             "number above 0")));
}

// Breaks if a token alone had another state than in a batch, or a restored session lacked it.
TEST_F(ModelOfMamba, OfTheFirstHasTheSameBitsOnAllSurfaces) {
  TinyModel tiny;
  become_mamba(tiny);
  tiny.write(path());
  const Model model(std::make_shared<Gguf>(path()));
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const std::vector<int32_t> tokens = {1, 4, 2, 0, 3, 3, 1, 2, 4};
  const auto copy = [](std::span<const float> logits) {
    return std::vector<float>(logits.begin(), logits.end());
  };
  Session whole(model, *kernels, {});
  const std::vector<float> expected = copy(whole.eval(tokens));
  Session alone(model, *kernels, {});
  std::vector<float> got;
  for (const int32_t token : tokens) got = copy(alone.eval({&token, 1}));
  EXPECT_EQ(got, expected);
  Session chunks(model, *kernels, {.batch = 4});
  EXPECT_EQ(copy(chunks.eval(tokens)), expected);
  Session first(model, *kernels, {});
  first.eval(std::span(tokens).first(6));
  first.save(TemporaryFolder::path("session"));
  Session restored(model, *kernels, {});
  restored.restore(TemporaryFolder::path("session"));
  EXPECT_EQ(copy(restored.eval(std::span(tokens).subspan(6))), expected);
}

TEST_F(ModelOfMamba, DoesWithoutABiasAndTakesNumbersInARow) {
  TinyModel tiny;
  become_granite_hybrid(tiny);
  tiny.tensors.erase("blk.0.ssm_conv1d.bias");
  tiny.tensors["blk.0.ssm_a"] = tiny.tensors["blk.0.ssm_d"] = {{4}};
  tiny.write(path());
  const Model model(std::make_shared<Gguf>(path()));
  EXPECT_EQ(model.layers[0].extra.conv_bias, nullptr);
}

TEST_F(ModelOfMamba, OtherFilesAreRefusedByName) {
  static constexpr char kHeads[] = "granitehybrid.attention.head_count_kv";
  const struct {
    std::function<void(TinyModel&)> edit;
    const char* message;
  } files[] = {
      {[](TinyModel& m) { m.ints.erase("granitehybrid.ssm.conv_kernel"); },
       "key 'granitehybrid.ssm.conv_kernel' is missing"},
      {[](TinyModel& m) { m.ints["granitehybrid.ssm.group_count"] = 3; },
       "key 'granitehybrid.ssm.group_count' is 3, which does not divide the 4 value heads"},
      {[](TinyModel& m) { m.ints["granitehybrid.ssm.inner_size"] = 9; },
       "key 'granitehybrid.ssm.inner_size' is 9, which is not a multiple of the 4 value heads"},
      {[](TinyModel& m) { m.ints["granitehybrid.ssm.state_size"] = 4; }, "the hyperparameters say"},
      {[](TinyModel& m) { m.ints["granitehybrid.ssm.group_count"] = 1; },
       "the hyperparameters say"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {1, 1};
       },
       "key 'granitehybrid.attention.head_count_kv' is 1 in layer 0, which lacks attention"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {0, 0};
       },
       "key 'granitehybrid.attention.head_count_kv' is 0 in layer 1, which has attention"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.ssm_d"); }, "tensor 'blk.0.ssm_d' is missing"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.ssm_a"); }, "tensor 'blk.0.ssm_a' is missing"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.ssm_dt.bias"); },
       "tensor 'blk.0.ssm_dt.bias' is missing"},
      {[](TinyModel& m) { m.tensors["blk.0.ssm_in.bias"] = {{32}}; },
       "tensor 'blk.0.ssm_in.bias' is not one that Assay uses"},
      {[](TinyModel& m) { m.fill["blk.0.ssm_a"] = 0.25F; },
       "tensor 'blk.0.ssm_a' holds 0.25, which is not a finite number of at most 0"}};
  for (const auto& file : files) {
    TinyModel tiny;
    become_granite_hybrid(tiny);
    file.edit(tiny);
    tiny.write(path());
    EXPECT_THAT([&] { Model(std::make_shared<Gguf>(path())); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path()), HasSubstr(file.message))));
  }
}

}  // namespace
}  // namespace assay
