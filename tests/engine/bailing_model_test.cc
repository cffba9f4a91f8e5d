// Ling's files are those of networks that are held to float64: their numbers are the same, bit for
// bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/model.h"
#include "engine/session.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::GgufBuilder;

struct Tensor {
  std::vector<uint64_t> dims;
  std::vector<float> values;
};

// A file of two layers, the first without experts where `dense`.
struct File {
  std::string architecture;
  bool dense = false;
  std::map<std::string, Tensor> tensors = {};
  std::map<std::string, uint32_t> ints = {};

  void add(const std::string& name, std::vector<uint64_t> dims) {
    size_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::vector<float> values(count);
    double phase = 0.0;
    for (const char letter : name) phase += letter;  // none of another tensor
    for (float& value : values) value = static_cast<float>(std::sin(phase += 1.7) * 0.5);
    tensors[name] = {std::move(dims), std::move(values)};
  }

  // q, k and v as one tensor.
  void fuse() {
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      Tensor fused{{8, 16}, {}};
      for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
        const auto found = tensors.find(layer + part + ".weight");
        const std::vector<float>& values = found->second.values;
        fused.values.insert(fused.values.end(), values.begin(), values.end());
        tensors.erase(found);
      }
      tensors[layer + "attn_qkv.weight"] = std::move(fused);
    }
  }

  std::string write(const std::string& path) const {
    GgufBuilder builder;
    builder.text("general.architecture", architecture);
    builder.text("tokenizer.ggml.model", "no_vocab");
    for (const auto& [key, value] : ints) builder.u32(architecture + "." + key, value);
    builder.f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
    builder.f32(architecture + ".expert_weights_scale", dense ? 2.5F : 1.0F);
    builder.boolean(architecture + ".expert_weights_norm", true);
    for (const auto& [name, tensor] : tensors) {
      builder.f32_tensor(name, tensor.dims, tensor.values);
    }
    return builder.write(path);
  }
};

File file_of(const std::string& architecture, bool normed) {
  File file{architecture, normed};
  file.ints = {{"block_count", 2},
               {"embedding_length", 8},
               {"feed_forward_length", 12},
               {"context_length", 16},
               {"attention.head_count", 2},
               {"attention.head_count_kv", 1},
               {"rope.dimension_count", normed ? 2U : 4U},
               {"expert_count", 4},
               {"expert_used_count", 2},
               {"expert_feed_forward_length", 6},
               {"expert_shared_count", 1},
               {"leading_dense_block_count", normed ? 1U : 0U}};
  file.add("token_embd.weight", {8, 5});
  file.add("output.weight", {8, 5});
  file.add("output_norm.weight", {8});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    const auto add = [&](const char* name, std::vector<uint64_t> dims) {
      file.add(layer + name + ".weight", std::move(dims));
    };
    for (const char* norm : {"attn_norm", "ffn_norm"}) add(norm, {8});
    add("attn_q", {8, 8});
    add("attn_k", {8, 4});
    add("attn_v", {8, 4});
    add("attn_output", {8, 8});
    if (normed) {
      add("attn_q_norm", {4});
      add("attn_k_norm", {4});
    }
    if (normed && layer == "blk.0.") {
      add("ffn_gate", {8, 12});
      add("ffn_up", {8, 12});
      add("ffn_down", {12, 8});
      continue;
    }
    add("ffn_gate_inp", {8, 4});
    if (normed) file.add(layer + "exp_probs_b.bias", {4});
    add("ffn_gate_exps", {8, 6, 4});
    add("ffn_up_exps", {8, 6, 4});
    add("ffn_down_exps", {6, 8, 4});
    add("ffn_gate_shexp", {8, 6});
    add("ffn_up_shexp", {8, 6});
    add("ffn_down_shexp", {6, 8});
  }
  return file;
}

class BailingModel : public TemporaryFolder {
 protected:
  Model model_of(const File& file) const {
    return Model(std::make_shared<Gguf>(file.write(path("model.gguf"))));
  }
  std::vector<float> logits(const File& file) const {
    const Model model = model_of(file);
    ThreadPool pool(1);
    const auto kernels = make_cpu_kernels(pool);
    Session session(model, *kernels, {});
    const auto got = session.eval(std::vector<int32_t>{1, 4, 2, 0, 3, 3, 1, 2, 4});
    return {got.begin(), got.end()};
  }
};

// Breaks if Ling's first were rotated, routed or mixed otherwise than Ernie 4.5, which always makes
// weights add up to 1.
TEST_F(BailingModel, TheFirstIsErnieWithExperts) {
  File ling = file_of("bailingmoe", false);
  const std::vector<float> expected = logits(file_of("ernie4_5-moe", false));
  EXPECT_EQ(logits(ling), expected);
  ling.tensors.at("blk.1.ffn_down_shexp.weight").values.assign(48, 0.0F);
  EXPECT_NE(logits(ling), expected);
}

// Breaks if Ling 2's product of q, k and v were taken apart otherwise, or its layers were others
// than dots1's.
TEST_F(BailingModel, TheSecondIsDots1WithOneProduct) {
  File ling = file_of("bailingmoe2", true);
  ling.ints["expert_gating_func"] = 2;
  ling.fuse();
  File dots = file_of("dots1", true);
  dots.ints["expert_gating_func"] = 2;
  const std::vector<float> expected = logits(dots);
  EXPECT_EQ(logits(ling), expected);
  ling.ints["expert_gating_func"] = 1;
  EXPECT_NE(logits(ling), expected);
  ling.ints["expert_gating_func"] = 2;
  ling.ints["rope.dimension_count"] = 4;
  EXPECT_NE(logits(ling), expected);
}

// What llama.cpp does not read of such files, whatever they state.
TEST_F(BailingModel, OtherRoutingOfTheFirstIsRefused) {
  for (const char* key : {"expert_gating_func", "expert_group_count"}) {
    File ling = file_of("bailingmoe", false);
    ling.ints[key] = 2;
    EXPECT_THAT([&] { model_of(ling); },
                ThrowsMessage<Error>(HasSubstr(std::string("key 'bailingmoe.") + key + "' is 2")));
  }
  File ling = file_of("bailingmoe2", true);
  EXPECT_THAT([&] { model_of(ling); },
              ThrowsMessage<Error>(HasSubstr("tensor 'blk.0.attn_qkv.weight' is missing")))
      << "its files have one product";
}

}  // namespace
}  // namespace assay
