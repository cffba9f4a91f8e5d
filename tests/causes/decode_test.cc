// What goes wrong from one token on: the prompt is evaluated at once, what follows token by token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "assay/causes/search.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DecodePairs : public WrongKernels {
 public:
  bool wrong = false;

 protected:
  void rope(RopeCall call) override {
    if (wrong) call.pairing = other(call.pairing);
    right_->run(call);
  }
};

class DecodeTwice : public WrongKernels {
 public:
  bool wrong = false;

 protected:
  void attention(AttentionCall call) override {
    right_->run(call);
    const int64_t count = call.n_tokens * call.shape.n_heads * call.shape.head_dim;
    for (int64_t i = 0; wrong && i < count; ++i) call.out[i] *= 2;
  }
};

class TwiceForAWhile : public DecodeTwice {
 protected:
  void attention(AttentionCall call) override {
    if (call.first_position >= 8) wrong = false;
    DecodeTwice::attention(call);
  }
};

// Each of a tenth off, so that nothing explains it.
class DecodeNoise : public Noise {
 public:
  bool wrong = false;

 protected:
  void matmul(const MatmulCall& call) override {
    if (wrong) {
      Noise::matmul(call);
    } else {
      right_->run(call);
    }
  }
};

class DecodePath : public FaultyLogs {
 protected:
  template <typename Wrong>
  Comparison decoded(const std::string& name, const std::string& checkpoints, bool with_model,
                     size_t from = 8) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    Wrong wrong;
    const std::string ref = log(*model, *right, "ref", checkpoints);
    const std::string got = log(*model, wrong, "got", checkpoints, kAllValues, KvType::kF32, from,
                                [&] { wrong.wrong = true; });
    return compare(with_model ? model.get() : nullptr, ref, got);
  }

  static void expect(const Comparison& comparison, const std::string& name,
                     const std::string& checkpoint, const std::string& words) {
    ASSERT_THAT(comparison.causes, SizeIs(1)) << name << ": " << comparison.cause_hint;
    const Cause& cause = comparison.causes[0];
    EXPECT_EQ(cause.name, name);
    EXPECT_EQ(cause.checkpoint.name, checkpoint);
    EXPECT_EQ(cause.token_idx, 8);
    EXPECT_GT(cause.explained, 0.999);
    EXPECT_LT(cause.confidence, 0.8);
    EXPECT_GT(cause.confidence, 0.4);
    EXPECT_THAT(cause.sentence, HasSubstr("from token 8 on " + words));
    EXPECT_THAT(cause.sentence, HasSubstr("tokens 0 to 7 are right"));
  }
};

TEST_F(DecodePath, FindsAMistakeOfTheTail) {
  expect(decoded<DecodePairs>("tinyllama", "ops", true), "rope_pairing", "layer_0_q_rope",
         "layer_0_q_rope rotates the halves of a head");
  expect(decoded<DecodePairs>("qwen2.5", "ops", true), "rope_pairing", "layer_0_q_rope",
         "layer_0_q_rope rotates adjacent elements");
  expect(decoded<DecodeTwice>("phi3", "ops", true), "scale", "layer_0_attn",
         "layer_0_attn is multiplied by 2");
}

TEST_F(DecodePath, NeedsNoModelIfTheReferenceShowsTheOp) {
  expect(decoded<DecodePairs>("llama3", "ops", false), "rope_pairing", "layer_0_q_rope",
         "layer_0_q_rope rotates the halves of a head");
  expect(decoded<DecodeTwice>("gpt2", "ops", false), "scale", "layer_0_attn",
         "layer_0_attn is multiplied by 2");
}

// Breaks if the keys of the prompt, which the tail attends to, were taken for wrong too.
TEST_F(DecodePath, KeepsTheKeysOfEarlierTokens) {
  expect(decoded<DecodePairs>("tinyllama", "layers", true), "rope_pairing", "layer_0_output",
         "layer_0_q_rope, like layer_0_k_rope, rotates the halves of a head");
}

TEST_F(DecodePath, NamesNothingIfNoMistakeExplainsIt) {
  for (const char* set : {"ops", "layers"}) {
    for (const bool with_model : {true, false}) {
      const Comparison comparison = decoded<DecodeNoise>("tinyllama", set, with_model);
      EXPECT_FALSE(comparison.pass);
      EXPECT_THAT(comparison.causes, IsEmpty()) << set << comparison.causes[0].sentence;
      EXPECT_FALSE(comparison.cause_hint.empty());
    }
  }
}

// Breaks if any set of failing tokens were taken for where a mistake is made.
TEST_F(DecodePath, TailMustRunToTheEnd) {
  const Comparison comparison = decoded<TwiceForAWhile>("tinyllama", "ops", true, 4);
  EXPECT_FALSE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty()) << comparison.causes[0].sentence;
  EXPECT_THAT(comparison.cause_hint, HasSubstr("no known mistake explains layer_0_attn"));
}

// The search may do no more work for two tries than for one.
TEST_F(DecodePath, BothTriesShareOneWorkLimit) {
  const auto model = load("tinyllama");
  const Comparison comparison = decoded<DecodeNoise>("tinyllama", "layers", false);
  const causes::Op op{Checkpoint::kOutput, 0};
  const causes::Network network = causes::Network::of_model(*model, 12);
  causes::TensorStore store(comparison);
  const auto work = [&](double most) {
    return causes::try_mistakes(network, store, op, 8, {}, most).multiplications;
  };
  const double all = work(causes::Search::kMaxMultiplications);
  causes::Search whole(network, store, op, {.first_token = 8}, {});
  whole.run();
  EXPECT_GT(all, 1.5 * whole.multiplications()) << "the tail is not tried";
  const double base = causes::Chain(network, store, op, {8}).base_multiplications();
  for (const double share : {0.5, 1.2}) {
    const double most = share * whole.multiplications();
    EXPECT_LE(work(most), most + 5 * base) << share;
  }
}

// Breaks if what the reference does not have were called right, as the judged log has it.
TEST_F(DecodePath, KeysThatTheReferenceLacksAreNotCalledRight) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  DecodePairs wrong;
  wrong.wrong = true;
  const std::string all = log(*model, *right, "all", "ops");
  const std::string got =
      log(*model, wrong, "got", "ops", kAllValues, KvType::kF32, 8, [&] { wrong.wrong = false; });
  std::string late;
  std::ifstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("\"token_idx\":");
    if (at == std::string::npos || std::stoll(line.substr(at + 12)) >= 8) late += line + "\n";
  }
  const Comparison comparison = compare(model.get(), put("ref", late), got);
  ASSERT_FALSE(comparison.pass);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_0_attn");
  EXPECT_THAT(comparison.causes, IsEmpty()) << comparison.causes[0].sentence;
  EXPECT_THAT(comparison.cause_hint, HasSubstr("the reference does not have these"));
}

}  // namespace
}  // namespace assay
