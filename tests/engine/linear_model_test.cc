#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::TinyModel;

// Two layers: linear attention of two value heads that read one key head, and full attention.
void become_qwen35(TinyModel& model) {
  model.become("qwen35");
  model.ints["qwen35.block_count"] = 2;
  model.ints["qwen35.full_attention_interval"] = 2;
  model.ints["qwen35.ssm.conv_kernel"] = 3;
  model.ints["qwen35.ssm.state_size"] = 3;
  model.ints["qwen35.ssm.group_count"] = 1;
  model.ints["qwen35.ssm.time_step_rank"] = 2;
  model.ints["qwen35.ssm.inner_size"] = 4;
  model.int_lists["qwen35.rope.dimension_sections"] = {1, 1, 0, 0};
  const std::string norm = "post_attention_norm.weight";
  model.tensors["blk.0." + norm] = {{8}};
  model.tensors.erase("blk.0.ffn_norm.weight");
  const auto attention = model.tensors;
  for (const auto& [name, tensor] : attention) {
    if (name.starts_with("blk.0.")) model.tensors["blk.1." + name.substr(6)] = tensor;
  }
  for (const char* part : {"q", "k", "v", "output"}) {
    model.tensors.erase(std::string("blk.0.attn_") + part + ".weight");
  }
  for (const char* part : {"q", "k"}) {
    model.tensors[std::string("blk.1.attn_") + part + "_norm.weight"] = {{4}};
  }
  model.tensors["blk.1.attn_q.weight"] = {{8, 16}};  // with the gate
  model.tensors["blk.0.attn_qkv.weight"] = {{8, 10}};
  model.tensors["blk.0.attn_gate.weight"] = {{8, 4}};
  model.tensors["blk.0.ssm_alpha.weight"] = {{8, 2}};
  model.tensors["blk.0.ssm_beta.weight"] = {{8, 2}};
  model.tensors["blk.0.ssm_conv1d.weight"] = {{3, 10}};
  model.tensors["blk.0.ssm_a"] = {{2}};
  model.fill["blk.0.ssm_a"] = -0.5F;
  model.tensors["blk.0.ssm_dt.bias"] = {{2}};
  model.tensors["blk.0.ssm_norm.weight"] = {{2}};
  model.tensors["blk.0.ssm_out.weight"] = {{4, 8}};
}

class ModelOfLinearAttention : public TemporaryFolder {
 protected:
  std::string path() const { return TemporaryFolder::path("model.gguf"); }
};

TEST_F(ModelOfLinearAttention, KeepsAStateAndWhatItsConvolutionReads) {
  TinyModel tiny;
  become_qwen35(tiny);
  tiny.write(path());
  const Model model(std::make_shared<Gguf>(path()));
  EXPECT_EQ(model.config().delta, (DeltaShape{1, 2, 3, 2}));
  EXPECT_NE(find_spec(model.config().layer(0).ops, Checkpoint::kDelta), nullptr);
  EXPECT_NE(find_spec(model.config().layer(1).ops, Checkpoint::kGatedAttn), nullptr);
  const KvCache cache(model.config(), KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 5), 5U * 10 * 4) << "as f32, whatever keys are kept as";
  EXPECT_EQ(cache.v_bytes(0, 5), 0U);
  EXPECT_EQ(cache.state_bytes(0), 2U * 3 * 2 * 4);
  EXPECT_EQ(cache.state_bytes(1), 0U);
  EXPECT_EQ(cache.state_bytes(), 2U * 3 * 2 * 4);
}

// Breaks if rows of older files of qwen3next, which have for each key head its query, its key, its
// values and their gates, were taken for others.
TEST_F(ModelOfLinearAttention, OlderFilesHoldQueriesKeysValuesAndGatesInOne) {
  TinyModel tiny;
  become_qwen35(tiny);
  tiny.become("qwen3next");
  tiny.int_lists.clear();
  tiny.ints["qwen3next.ssm.state_size"] = 1;
  tiny.ints["qwen3next.ssm.group_count"] = 2;
  tiny.ints["qwen3next.ssm.time_step_rank"] = 4;
  for (const char* name : {"attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta"}) {
    tiny.tensors.erase(std::string("blk.0.") + name + ".weight");
  }
  tiny.tensors["blk.0.ssm_in.weight"] = {{8, 12}};
  tiny.tensors["blk.0.ssm_ba.weight"] = {{8, 8}};
  tiny.tensors["blk.0.ssm_conv1d.weight"] = {{3, 8}};
  tiny.tensors["blk.0.ssm_a"] = tiny.tensors["blk.0.ssm_dt.bias"] = {{4}};
  tiny.tensors["blk.0.ssm_norm.weight"] = {{1}};
  tiny.write(path());
  const auto gguf = std::make_shared<Gguf>(path());
  const Model model(gguf);
  EXPECT_EQ(model.config().delta, (DeltaShape{2, 4, 1, 1, true}));
  const GgufTensor& whole = *gguf->find_tensor("blk.0.ssm_in.weight");
  const auto rows_of = [&](Checkpoint part) {
    const WeightMatrix& matrix = model.layers[0].linear(part).weight;
    const size_t bytes = row_bytes(matrix.type, matrix.columns);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < matrix.rows; ++i) {
      for (int64_t row = 0; row < whole.rows(); ++row) {
        const auto* from = whole.data.data() + static_cast<size_t>(row) * bytes;
        if (std::memcmp(matrix.slice(i, 1).data, from, bytes) == 0) rows.push_back(row);
      }
    }
    return rows;
  };
  EXPECT_THAT(rows_of(Checkpoint::kLinearQkv), ElementsAre(0, 6, 1, 7, 2, 3, 8, 9));
  EXPECT_THAT(rows_of(Checkpoint::kLinearZ), ElementsAre(4, 5, 10, 11));
  tiny.tensors["blk.0.ssm_in.weight"] = {{8, 11}};
  tiny.write(path());
  EXPECT_THAT([&] { Model(std::make_shared<Gguf>(path())); },
              ThrowsMessage<Error>(HasSubstr("the hyperparameters say [8, 12]")));
}

TEST_F(ModelOfLinearAttention, OtherFilesAreRefusedByName) {
  static constexpr char kLayers[] = "qwen35.attention.recurrent_layers";
  const struct {
    std::function<void(TinyModel&)> edit;
    const char* message;
  } files[] = {
      {[](TinyModel& m) { m.ints.erase("qwen35.ssm.conv_kernel"); },
       "key 'qwen35.ssm.conv_kernel' is missing"},
      {[](TinyModel& m) { m.ints["qwen35.ssm.conv_kernel"] = 65; },
       "key 'qwen35.ssm.conv_kernel' is 65, allowed are 1 to 64"},
      {[](TinyModel& m) { m.ints["qwen35.ssm.state_size"] = 0; },
       "key 'qwen35.ssm.state_size' is 0, allowed are 1 to 65536"},
      {[](TinyModel& m) { m.ints["qwen35.ssm.group_count"] = 3; },
       "key 'qwen35.ssm.group_count' is 3, which does not divide the 2 value heads"},
      {[](TinyModel& m) { m.ints["qwen35.ssm.inner_size"] = 5; },
       "key 'qwen35.ssm.inner_size' is 5, which is not a multiple of the 2 value heads"},
      {[](TinyModel& m) { m.ints["qwen35.ssm.state_size"] = 4; }, "the hyperparameters say"},
      {[](TinyModel& m) { m.ints["qwen35.full_attention_interval"] = 0; },
       "key 'qwen35.full_attention_interval' is 0, allowed are 1 to 4096"},
      {[](TinyModel& m) { m.ints["qwen35.full_attention_interval"] = 1; },
       "key 'qwen35.full_attention_interval' gives layer 0 full attention, and its tensors are "
       "those of linear"},
      {[](TinyModel& m) {
         m.int_lists[kLayers] = {1, 1};
       },
       "key 'qwen35.attention.recurrent_layers' gives layer 1 linear attention, and its tensors "
       "are those of full"},
      {[](TinyModel& m) { m.int_lists[kLayers] = {1}; },
       "key 'qwen35.attention.recurrent_layers' has 1 entries for 2 layers"},
      {[](TinyModel& m) {
         m.int_lists["qwen35.rope.dimension_sections"] = {1, 1, 0};
       },
       "key 'qwen35.rope.dimension_sections' is not four numbers of pairs"},
      {[](TinyModel& m) {
         m.int_lists["qwen35.rope.dimension_sections"] = {1, 1, -1, 0};
       },
       "key 'qwen35.rope.dimension_sections' is not four numbers of pairs"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.ssm_a"); }, "tensor 'blk.0.ssm_a' is missing"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.ssm_dt.bias"); },
       "tensor 'blk.0.ssm_dt.bias' is missing"},
      {[](TinyModel& m) { m.fill["blk.0.ssm_a"] = 0.25F; },
       "tensor 'blk.0.ssm_a' holds 0.25, which is not a finite number of at most 0"},
      {[](TinyModel& m) {
         m.tensors["blk.1.attn_q.weight"] = {{8, 8}};
       },
       "tensor 'blk.1.attn_q.weight' has the shape [8, 8], the hyperparameters say [8, 16]"}};
  for (const auto& file : files) {
    TinyModel tiny;
    become_qwen35(tiny);
    file.edit(tiny);
    tiny.write(path());
    EXPECT_THAT([&] { Model(std::make_shared<Gguf>(path())); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path()), HasSubstr(file.message))));
  }
}

}  // namespace
}  // namespace assay
