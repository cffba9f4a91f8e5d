#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::TinyModel;

// Two layers: a convolution of three positions, and attention.
void become_lfm2(TinyModel& model) {
  model.become("lfm2");
  model.ints.erase("lfm2.attention.head_count_kv");
  model.int_lists["lfm2.attention.head_count_kv"] = {0, 1};
  model.ints["lfm2.block_count"] = 2;
  model.ints["lfm2.shortconv.l_cache"] = 3;
  model.tensors["token_embd_norm.weight"] = {{8}};
  model.tensors.erase("output_norm.weight");
  const std::string conv = "blk.0.shortconv.";
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
  model.tensors[conv + "in_proj.weight"] = {{8, 24}};
  model.tensors[conv + "conv.weight"] = {{3, 8}};
  model.tensors[conv + "out_proj.weight"] = {{8, 8}};
}

class ModelOfConvolutions : public TemporaryFolder {};

// llama.cpp has the window in all layers with attention, whatever a file says.
TEST_F(ModelOfConvolutions, EveryAttentionHasTheWindow) {
  TinyModel tiny;
  become_lfm2(tiny);
  tiny.ints["lfm2.attention.sliding_window"] = 4;
  const auto load = [&](std::vector<int32_t> pattern) {
    tiny.int_lists["lfm2.attention.sliding_window_pattern"] = std::move(pattern);
    return Model(std::make_shared<Gguf>(tiny.write(path("model.gguf")))).config().layer(1).window;
  };
  EXPECT_EQ(load({0, 1}), 4);
  EXPECT_THAT(
      [&] {
        load({1, 0});
      },
      ThrowsMessage<Error>(HasSubstr(
          "key 'lfm2.attention.sliding_window_pattern' leaves layer 1 without a window")));
}

// Breaks if a layer's kind were another than its tensors, or what it keeps of a position.
TEST_F(ModelOfConvolutions, LayersAreWhatTheirTensorsSay) {
  TinyModel tiny;
  become_lfm2(tiny);
  tiny.ints["lfm2.attention.sliding_window"] = 4;
  const Model model(std::make_shared<Gguf>(tiny.write(path("model.gguf"))));
  EXPECT_NE(find_spec(model.config().layer(0).ops, Checkpoint::kConv), nullptr);
  EXPECT_NE(find_spec(model.config().layer(1).ops, Checkpoint::kAttn), nullptr);
  EXPECT_EQ(model.config().layer(1).window, 4) << "as llama.cpp has it";
  const KvCache cache(model.config(), KvType::kF16, 5, host_memory());
  EXPECT_EQ(cache.k_bytes(0, 5), 5U * 8 * 4) << "f32, whatever keys are";
  EXPECT_EQ(cache.v_bytes(1, 5), 5U * 4 * 2);
  EXPECT_EQ(cache.position_bytes(), 2U * 8 * 4 + 2U * 4 * 2);
}

TEST_F(ModelOfConvolutions, OtherFilesAreRefusedByName) {
  static constexpr char kHeads[] = "lfm2.attention.head_count_kv";
  const struct {
    std::function<void(TinyModel&)> edit;
    const char* message;
  } files[] = {
      {[](TinyModel& m) { m.ints.erase("lfm2.shortconv.l_cache"); },
       "key 'lfm2.shortconv.l_cache' is missing"},
      {[](TinyModel& m) { m.ints["lfm2.shortconv.l_cache"] = 65; },
       "key 'lfm2.shortconv.l_cache' is 65, allowed are 1 to 64"},
      {[](TinyModel& m) {
         m.tensors["blk.0.shortconv.conv.weight"] = {{4, 8}};
       },
       "tensor 'blk.0.shortconv.conv.weight' has the shape [4, 8], the hyperparameters say [3, 8]"},
      {[](TinyModel& m) { m.tensors.erase("blk.0.shortconv.conv.weight"); },
       "tensor 'blk.0.shortconv.conv.weight' is missing"},
      {[](TinyModel& m) { m.int_lists[kHeads] = {0}; },
       "key 'lfm2.attention.head_count_kv' has 1 entries for 2 layers"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {2, 1};
       },
       "key 'lfm2.attention.head_count_kv' is 2 in one layer and 1 in another"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {1, 1};
       },
       "key 'lfm2.attention.head_count_kv' is 1 in layer 0, which lacks attention"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {0, 0};
       },
       "key 'lfm2.attention.head_count_kv' is 0 in layer 1, which has attention"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {0, -1};
       },
       "key 'lfm2.attention.head_count_kv' is -1 in a layer, allowed are 0 to 65535"},
      {[](TinyModel& m) {
         m.int_lists[kHeads] = {-1, -1};
       },
       "key 'lfm2.attention.head_count_kv' is -1 in a layer, allowed are 0 to 65535"}};
  for (const auto& file : files) {
    TinyModel tiny;
    become_lfm2(tiny);
    file.edit(tiny);
    const std::string file_path = tiny.write(path("model.gguf"));
    EXPECT_THAT([&] { Model(std::make_shared<Gguf>(file_path)); },
                ThrowsMessage<Error>(AllOf(HasSubstr(file_path), HasSubstr(file.message))));
  }
}

}  // namespace
}  // namespace assay
