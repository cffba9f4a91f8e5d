// Queries, keys and values whose magnitude has a limit (DBRX, OLMo, MPT), from files and
// config.json.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/hf/config.h"
#include "engine/model.h"
#include "engine/session.h"
#include "tests/support/clipped_model.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::become_dbrx;
using testing_support::TinyModel;

const std::vector<int32_t> kPrompt = {1, 4, 2, 0, 3, 3, 1, 2, 4};

struct AllRows final : Probe {
  bool wants(Checkpoint /*checkpoint*/, int /*layer*/) override { return true; }
  void observe(Checkpoint checkpoint, int /*layer*/, int64_t /*first*/, int64_t n_tokens,
               int64_t width, const float* values) override {
    rows[checkpoint].assign(values, values + n_tokens * width);
  }
  std::map<Checkpoint, std::vector<float>> rows;
};

class ClippedModel : public TemporaryFolder {
 protected:
  std::unique_ptr<Model> model_with(const std::function<void(TinyModel&)>& change) {
    TinyModel tiny;
    become_dbrx(tiny);
    change(tiny);
    return std::make_unique<Model>(
        std::make_shared<Gguf>(tiny.write(path(fmt::format("{}.gguf", ++n_files_)))));
  }
  std::vector<float> logits(const Model& model, int64_t batch, Probe* probe = nullptr) {
    Session session(model, *kernels_, {.batch = batch});
    const auto got = session.eval(kPrompt, probe);
    return {got.begin(), got.end()};
  }

  int n_files_ = 0;  // of which none takes the place of one that is mapped
  ThreadPool pool_{1};
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(pool_);
};

// Breaks if one of the three were left as it is, or clipped elsewhere.
TEST_F(ClippedModel, EachIsClippedBehindItsProduct) {
  const auto model = model_with([](TinyModel&) {});
  EXPECT_EQ(model->config().clip, 0.125F);
  AllRows kept;
  const std::vector<float> all = logits(*model, 16, &kept);
  const std::pair<Checkpoint, Checkpoint> clips[] = {{Checkpoint::kQ, Checkpoint::kQClip},
                                                     {Checkpoint::kK, Checkpoint::kKClip},
                                                     {Checkpoint::kV, Checkpoint::kVClip}};
  for (const auto& [from, to] : clips) {
    std::vector<float> expected = kept.rows.at(from);
    ASSERT_TRUE(std::ranges::any_of(expected, [](float x) { return std::abs(x) > 0.125F; }));
    for (float& x : expected) x = std::clamp(x, -0.125F, 0.125F);
    EXPECT_EQ(kept.rows.at(to), expected) << checkpoint_op(to);
  }
  EXPECT_EQ(logits(*model, 1), all);
  EXPECT_EQ(logits(*model, 4), all);
}

// Breaks if 0 were a limit, or a file that states none had one.
TEST_F(ClippedModel, WithoutALimitNothingIsClipped) {
  const auto none = model_with([](TinyModel& m) { m.floats.erase("dbrx.attention.clamp_kqv"); });
  const auto zero = model_with([](TinyModel& m) { m.floats["dbrx.attention.clamp_kqv"] = 0; });
  const auto high = model_with([](TinyModel& m) { m.floats["dbrx.attention.clamp_kqv"] = 1e6F; });
  EXPECT_EQ(none->config().find(Checkpoint::kQClip), nullptr);
  EXPECT_EQ(logits(*none, 16), logits(*zero, 16));
  EXPECT_EQ(logits(*none, 16), logits(*high, 16));
  EXPECT_NE(logits(*none, 16), logits(*model_with([](TinyModel&) {}), 16));
}

TEST_F(ClippedModel, OtherLimitsAreRefusedByName) {
  for (const float limit : {-1.0F, NAN, INFINITY}) {
    EXPECT_THAT(
        [&] { model_with([&](TinyModel& m) { m.floats["dbrx.attention.clamp_kqv"] = limit; }); },
        ThrowsMessage<Error>(HasSubstr("key 'dbrx.attention.clamp_kqv'")));
  }
  TinyModel llama;
  llama.floats["llama.attention.clamp_kqv"] = 6.0F;
  EXPECT_THAT([&] { Model(std::make_shared<Gguf>(llama.write(path("llama.gguf")))); },
              ThrowsMessage<Error>(HasSubstr("key 'llama.attention.clamp_kqv' is 6")));
}

HfConfig dbrx_config(const std::string& attention, const std::string& feed_forward,
                     const std::string& more = "") {
  return read_hf_config(R"({"model_type": "dbrx", "vocab_size": 5, "d_model": 8, "n_heads": 2,
                            "n_layers": 1, "max_seq_len": 16, "attn_config": {)" +
                            attention + R"(}, "ffn_config": {)" + feed_forward + "}" + more + "}",
                        "config.json");
}
const std::string kAttention = R"("rope_theta": 500000, "kv_n_heads": 2, "clip_qkv": 8)";
const std::string kFeedForward = R"("ffn_hidden_size": 12, "moe_num_experts": 4, "moe_top_k": 2)";

TEST(HfDbrx, ReadsWhatItsPartsState) {
  const HfConfig read = dbrx_config(kAttention, kFeedForward);
  const auto whole = [&](const HfConfig& of, const char* key) {
    return std::get<int64_t>(of.metadata.at(std::string("dbrx.") + key));
  };
  EXPECT_EQ(whole(read, "attention.head_count_kv"), 2);
  EXPECT_EQ(whole(read, "expert_count"), 4);
  EXPECT_EQ(whole(read, "expert_used_count"), 2);
  EXPECT_EQ(whole(read, "feed_forward_length"), 12);
  EXPECT_EQ(std::get<double>(read.metadata.at("dbrx.attention.clamp_kqv")), 8.0);
  EXPECT_EQ(std::get<double>(read.metadata.at("dbrx.rope.freq_base")), 500000.0);
  EXPECT_EQ(std::get<double>(read.metadata.at("dbrx.attention.layer_norm_epsilon")), double{1e-5F});
  const HfConfig usual =
      dbrx_config(R"("rope_theta": 10000)", R"("ffn_hidden_size": 12, "moe_num_experts": 4)");
  EXPECT_EQ(whole(usual, "attention.head_count_kv"), 1);
  EXPECT_EQ(whole(usual, "expert_used_count"), 1);
  EXPECT_FALSE(usual.metadata.contains("dbrx.attention.clamp_kqv"));
}

// Breaks if a file were computed by one of two bases that it states, or by weights that Assay has
// not.
TEST(HfDbrx, RefusesWhatContradictsOrIsNotComputed) {
  const struct {
    std::string attention;
    std::string feed_forward;
    std::string more;
    const char* message;
  } kCases[] = {
      {R"("kv_n_heads": 2)", kFeedForward, "", "attn_config: key 'rope_theta' is missing"},
      {kAttention, kFeedForward, R"(, "rope_theta": 10000.0)", "key 'rope_theta' is not 500000"},
      {kAttention, kFeedForward,
       R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0})",
       "rope_parameters: key 'rope_theta' is not 500000"},
      {kAttention, kFeedForward + R"(, "moe_normalize_expert_weights": 2.0)", "",
       "ffn_config: key 'moe_normalize_expert_weights' is not 1"},
      {kAttention, kFeedForward + R"(, "moe_normalize_expert_weights": null)", "",
       "ffn_config: key 'moe_normalize_expert_weights' is not 1"},
      {kAttention, kFeedForward + R"(, "ffn_act_fn": {"name": "mish"})", "",
       "key 'ffn_act_fn' is 'mish'"},
      {R"("rope_theta": 500000, "clip_qkv": -8)", kFeedForward, "", "key 'clip_qkv'"},
      {R"("rope_theta": 500000, "kv_n_heads": 3)", kFeedForward, "",
       "key 'kv_n_heads' is 3, which does not divide"}};
  for (const auto& [attention, feed_forward, more, message] : kCases) {
    EXPECT_THAT([&] { dbrx_config(attention, feed_forward, more); },
                ThrowsMessage<Error>(HasSubstr(message)))
        << attention << feed_forward << more;
  }
}

}  // namespace
}  // namespace assay
