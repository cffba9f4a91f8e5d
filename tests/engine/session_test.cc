#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/paths.h"
#include "tests/support/recorder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Recorder;
using testing_support::TinyModel;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int32_t> some_tokens(int64_t count, int64_t n_vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((i * 37 + 11) % n_vocab));
  return tokens;
}

struct Split {
  int n_threads;
  int64_t batch;
};

using SameBitsCase = std::tuple<std::string, std::string, KvType, Math>;

class SameBits : public testing::TestWithParam<SameBitsCase> {
 protected:
  void SetUp() override {
    const auto& [name, type, kv_type, math] = GetParam();
    model_ = std::make_unique<Model>(
        std::make_shared<Gguf>(source_path("golden/") + name + "/" + name + "-" + type + ".gguf"));
    kv_type_ = kv_type;
    math_ = math;
  }

  // The logits of the last of 40 tokens, and what the probe saw.
  std::vector<float> logits(const Split& setup, Probe* probe) {
    ThreadPool pool(setup.n_threads);
    const auto kernels = make_cpu_kernels(pool, best_instruction_set(), math_);
    Session session(*model_, *kernels, {.capacity = 41, .batch = setup.batch, .kv_type = kv_type_});
    const std::vector<int32_t> tokens = some_tokens(41, 250);
    session.eval({tokens.data(), 40}, probe);
    const auto last = session.eval({tokens.data() + 40, 1}, probe);  // decode after prefill
    return {last.begin(), last.end()};
  }

  std::unique_ptr<Model> model_;
  KvType kv_type_ = KvType::kF32;
  Math math_ = Math::kExact;
};

std::string same_bits_name(const testing::TestParamInfo<SameBits::ParamType>& test) {
  const auto& [name, type, kv_type, math] = test.param;
  std::string text = name + "_" + type + (kv_type == KvType::kF32 ? "_kv_f32" : "_kv_f16") +
                     (math == Math::kFast ? "_fast" : "");
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Goldens, SameBits,
                         testing::Combine(testing::Values("tinyllama", "llama3", "qwen2.5", "qwen3",
                                                          "olmo2", "granite", "phi3", "gpt2"),
                                          testing::Values("f32", "q4_k_m"),
                                          testing::Values(KvType::kF32, KvType::kF16),
                                          testing::Values(Math::kExact)),
                         same_bits_name);

INSTANTIATE_TEST_SUITE_P(
    FastGoldens, SameBits,
    testing::Combine(testing::Values("tinyllama", "llama3", "qwen2.5", "phi3", "gpt2"),
                     testing::Values("q8_0", "q4_k_m"), testing::Values(KvType::kF32),
                     testing::Values(Math::kFast)),
    same_bits_name);

// Windows and rotations that differ from layer to layer, soft caps, experts, sinks, heads' norms.
INSTANTIATE_TEST_SUITE_P(
    Families, SameBits,
    testing::Combine(testing::Values("gemma2", "gemma3", "gemma4", "gemma4-moe", "gemma4-ple",
                                     "gemma3n", "cohere2", "gpt-oss", "qwen3moe",
                                     "stablelm-parallel", "deepseek2", "deepseek3", "lfm2",
                                     "qwen35", "qwen3next", "lfm2moe", "mistral3", "apertus",
                                     "llama4", "phimoe", "mpt"),
                     testing::Values("f32"), testing::Values(KvType::kF32),
                     testing::Values(Math::kExact)),
    same_bits_name);

INSTANTIATE_TEST_SUITE_P(FastShortGoldens, SameBits,
                         testing::Combine(testing::Values("qwen3", "olmo2", "granite"),
                                          testing::Values("q4_k_m"), testing::Values(KvType::kF32),
                                          testing::Values(Math::kFast)),
                         same_bits_name);

// The promise of both kinds of math: no result depends on threads, batch, or whether anyone looks.
TEST_P(SameBits, ForEveryThreadCountBatchSizeAndWithLogging) {
  Recorder reference;
  const std::vector<float> expected = logits({1, 512}, &reference);
  ASSERT_FALSE(reference.records.empty());
  for (const int n_threads : {1, 2, 4}) {
    for (const int64_t batch : {1, 7, 512}) {
      SCOPED_TRACE(testing::Message() << n_threads << " threads, batch " << batch);
      EXPECT_TRUE(same_bits(logits({n_threads, batch}, nullptr), expected)) << "not logged";
      Recorder recorder;
      EXPECT_TRUE(same_bits(logits({n_threads, batch}, &recorder), expected)) << "logged";
      ASSERT_EQ(recorder.records.size(), reference.records.size());
      for (const auto& [key, values] : reference.records) {
        ASSERT_TRUE(same_bits(recorder.records.at(key), values)) << key.first << " @" << key.second;
      }
    }
  }
}

class TinySession : public testing::Test {
 protected:
  TinySession()
      : path_(testing::TempDir() + "session_test.gguf"),
        model_(std::make_shared<Gguf>(TinyModel{}.write(path_))) {}
  ~TinySession() override { std::filesystem::remove(path_); }

  const std::string path_;  // another process runs the next case

  ThreadPool pool_{1};
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(pool_);
  Model model_;
};

TEST_F(TinySession, RejectsTokensBeyondTheContext) {
  Session session(model_, *kernels_, {.capacity = 3});
  const std::vector<int32_t> tokens{1, 2, 3};
  session.eval(tokens);
  EXPECT_THAT(
      [&] {
        session.eval({tokens.data(), 1});
      },
      ThrowsMessage<Error>(HasSubstr("the context is full: 3 positions are used")));
  session.clear();
  EXPECT_EQ(session.eval(tokens).size(), 5U);
}

TEST_F(TinySession, RejectsBadInputBeforeComputing) {
  const auto message = [](const std::string& text) {
    return ThrowsMessage<Error>(HasSubstr(text));
  };
  EXPECT_THAT([&] { Session(model_, *kernels_, {.capacity = 17}); },
              message("17 positions are asked for, the model's context has 16"));
  EXPECT_THAT([&] { Session(model_, *kernels_, {.batch = 0}); }, message("--batch"));
  Session session(model_, *kernels_, {});
  EXPECT_THAT([&] { session.eval({}); }, message("no tokens"));
  EXPECT_THAT(
      [&] {
        session.eval(std::vector<int32_t>{0, 5});
      },
      message("token 5 is not in the vocabulary of 5"));
  EXPECT_THAT([&] { session.eval(std::vector<int32_t>{-1}); }, message("token -1"));
  EXPECT_EQ(session.n_positions(), 0);
}

TEST_F(TinySession, ClearForgetsTheFirstSequence) {
  Session session(model_, *kernels_, {});
  const std::vector<int32_t> tokens{1, 2, 3};
  const auto first = session.eval(tokens);
  const std::vector<float> expected(first.begin(), first.end());
  session.clear();
  session.eval(std::vector<int32_t>{4, 4, 4, 4});
  session.clear();
  const auto again = session.eval(tokens);
  EXPECT_TRUE(same_bits({again.begin(), again.end()}, expected));
}

TEST_F(TinySession, CheckpointsHaveTheContractsNamesAndOrder) {
  class Names : public Probe {
   public:
    bool wants(Checkpoint, int) override { return true; }
    void observe(Checkpoint checkpoint, int layer, int64_t, int64_t, int64_t width,
                 const float*) override {
      seen.push_back(checkpoint_name(checkpoint, layer) + ":" + std::to_string(width));
    }
    std::vector<std::string> seen;
  };
  Session session(model_, *kernels_, {});
  Names names;
  session.eval(std::vector<int32_t>{1}, &names);
  EXPECT_THAT(
      names.seen,
      testing::ElementsAre("embedding:8", "layer_0_attn_norm:8", "layer_0_q:8", "layer_0_k:4",
                           "layer_0_v:4", "layer_0_q_rope:8", "layer_0_k_rope:4", "layer_0_attn:8",
                           "layer_0_attn_out:8", "layer_0_attn_residual:8", "layer_0_ffn_norm:8",
                           "layer_0_ffn_gate:12", "layer_0_ffn_up:12", "layer_0_ffn_act:12",
                           "layer_0_ffn_out:8", "layer_0_output:8", "final_norm:8", "logits:5"));
}

// Counts the tokens of the products and attentions that it is asked for.
class CountingKernels : public Kernels {
 public:
  explicit CountingKernels(Kernels& kernels) : kernels_(kernels) {}
  std::string_view name() const override { return kernels_.name(); }
  void run(std::span<const MatmulCall> calls) override {
    for (const MatmulCall& call : calls) tokens[call.site.checkpoint] += call.n_tokens;
    kernels_.run(calls);
  }
  void run(const AttentionCall& call) override {
    tokens[call.site.checkpoint] += call.n_tokens;
    kernels_.run(call);
  }
  void run(const ConvCall& call) override { kernels_.run(call); }
  void run(const DeltaCall& call) override { kernels_.run(call); }
  void run(const SsmCall& call) override { kernels_.run(call); }
  void run(const GetRowsCall& call) override { kernels_.run(call); }
  void run(const NormCall& call) override { kernels_.run(call); }
  void run(const RopeCall& call) override { kernels_.run(call); }
  void run(const HeadsCall& call) override { kernels_.run(call); }
  void run(const StoreKvCall& call) override { kernels_.run(call); }
  void run(const ActivateCall& call) override { kernels_.run(call); }
  void run(const AddCall& call) override { kernels_.run(call); }
  void run(const CutoffCall& call) override { kernels_.run(call); }
  void run(const StreamsCall& call) override { kernels_.run(call); }
  void run(const SpreadCall& call) override { kernels_.run(call); }
  void run(const MixCall& call) override { kernels_.run(call); }

  std::map<Checkpoint, int64_t> tokens;

 private:
  Kernels& kernels_;
};

// Breaks if the last layer computed what neither later positions nor the logits read, or left out
// what they do read: a probe that wants it, too.
TEST_F(TinySession, TheLastLayerComputesWhatIsRead) {
  const std::vector<int32_t> prompt{1, 2, 3, 4, 0, 1, 2};
  CountingKernels kernels(*kernels_);
  const auto counted = [&](std::set<testing_support::RecordKey> wanted) {
    kernels.tokens.clear();
    Recorder probe(std::move(wanted));
    Session session(model_, kernels, {.batch = 4});
    session.eval(prompt, &probe);
    return kernels.tokens;
  };
  const std::map<Checkpoint, int64_t> needed = {
      {Checkpoint::kQ, 1},     {Checkpoint::kK, 7},       {Checkpoint::kV, 7},
      {Checkpoint::kAttn, 1},  {Checkpoint::kAttnOut, 1}, {Checkpoint::kFfnGate, 1},
      {Checkpoint::kFfnUp, 1}, {Checkpoint::kFfnOut, 1},  {Checkpoint::kLogits, 1}};
  EXPECT_EQ(counted({{"embedding", 0}}), needed);
  for (const char* wanted : {"layer_0_ffn_act", "layer_0_output", "final_norm", "logits"}) {
    std::map<Checkpoint, int64_t> all = needed;
    for (auto& [checkpoint, tokens] : all) tokens = 7;
    if (wanted != std::string("logits")) all[Checkpoint::kLogits] = 1;
    EXPECT_EQ(counted({{wanted, 0}}), all) << wanted;
  }
}

}  // namespace
}  // namespace assay
