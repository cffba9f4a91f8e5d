// Logs that hold nothing but logits: the network is computed from the prompt's tokens.
#include "tests/causes/logits_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "assay/mistakes/network.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class WrongPairs : public WrongKernels {
 protected:
  void rope(RopeCall call) override {
    call.pairing = other(call.pairing);
    right_->run(call);
  }
};

// Products that are off by numbers of this size, relative to each.
class SmallNoise : public WrongKernels {
 public:
  explicit SmallNoise(float size) : normal_(0, size) {}

 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) {
      call.out[i] *= 1 + normal_(random_);
    }
  }

 private:
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
};

// The rotation of llama3's golden with another base, to which its factors belong: those of Llama
// 3.1 for an original context of 64.
class OtherBaseOfLlama3 : public WrongKernels {
 public:
  explicit OtherBaseOfLlama3(double base) : base_(base) {}

 protected:
  void rope(RopeCall call) override {
    std::vector<float> table;
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      for (int64_t i = 0; i < call.rotary_dim; i += 2) {
        const double share_of_head = static_cast<double>(i) / static_cast<double>(call.rotary_dim);
        const double plain = std::pow(base_, -share_of_head);
        const double turns = 64.0 * plain / (2.0 * std::numbers::pi);
        const double share = std::clamp((turns - 1.0) / (4.0 - 1.0), 0.0, 1.0);
        const double frequency = plain * ((1.0 - share) / 8.0 + share);
        const auto position = static_cast<double>(call.site.first_position + t);
        table.push_back(static_cast<float>(std::cos(position * frequency)));
        table.push_back(static_cast<float>(std::sin(position * frequency)));
      }
    }
    call.cos_sin = table.data();
    right_->run(call);
  }

 private:
  double base_;
};

// As those are that have scores capped at 50, in a network without a cap.
class CappedScores : public WrongKernels {
 protected:
  void attention(AttentionCall call) override {
    call.shape.soft_cap = 50;
    right_->run(call);
  }
};

class LogitsAlone : public LogitsLogs {
 protected:
  const std::shared_ptr<Model> model_ = load("tinyllama");
  const Logits right_ = logits_of(*model_, *make_reference_kernels());
};

TEST_F(LogitsAlone, NameAMistakeOfEveryLayer) {
  WrongPairs kernels;
  const Logits wrong = logits_of(*model_, kernels);
  for (const auto form : {LogitsForm::kAll, LogitsForm::kHeadAndSketch, LogitsForm::kTop20}) {
    const Comparison comparison =
        compare(model_.get(), log(right_, "ref", form), log(wrong, "got", form));
    ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
    const Cause& cause = comparison.causes[0];
    EXPECT_EQ(cause.name, "rope_pairing");
    EXPECT_EQ(cause.checkpoint.name, form == LogitsForm::kTop20 ? "logprobs" : "logits");
    EXPECT_GT(cause.explained, 0.9999);
    EXPECT_THAT(cause.sentence, HasSubstr("every layer's q_rope, like k_rope,"));
  }
}

TEST_F(LogitsAlone, NameABaseWhoseFactorsFollowIt) {
  const auto model = load("llama3");
  const Logits right = logits_of(*model, *make_reference_kernels());
  OtherBaseOfLlama3 same(500000);
  const std::string ref = log(right, "ref", LogitsForm::kAll);
  EXPECT_TRUE(
      compare(model.get(), ref, log(logits_of(*model, same), "same", LogitsForm::kAll), 1e-5).pass);
  OtherBaseOfLlama3 kernels(10000);
  for (const auto form : {LogitsForm::kAll, LogitsForm::kTop20}) {
    const Comparison comparison = compare(model.get(), log(right, "ref", form),
                                          log(logits_of(*model, kernels), "got", form), 1e-5);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, "rope_base");
    EXPECT_GT(comparison.causes[0].explained, 0.9999);
    EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("10000 in place of 500000"));
  }
}

TEST_F(LogitsAlone, NameACapThatTheModelLacks) {
  CappedScores kernels;
  Logits capped = right_;
  for (std::vector<float>& row : capped) {
    for (float& logit : row) logit = 30 * std::tanh(logit / 30);
  }
  const std::string ref = log(right_, "ref", LogitsForm::kAll);
  const auto expect = [&](const Logits& logits, const char* name, const char* words) {
    const Comparison comparison =
        compare(model_.get(), ref, log(logits, name, LogitsForm::kAll), 1e-6);
    ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
    EXPECT_EQ(comparison.causes[0].name, name);
    EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(words));
  };
  expect(logits_of(*model_, kernels), "attention_softcap", "caps the attention scores at 50");
  expect(capped, "logit_softcap", "is capped at 30");
}

// A reference of logits, and a server that gives the most probable tokens alone.
TEST_F(LogitsAlone, MayBeOfTwoForms) {
  WrongPairs kernels;
  const std::string got = log(logits_of(*model_, kernels), "got", LogitsForm::kTop20);
  const Comparison comparison = compare(model_.get(), log(right_, "ref", LogitsForm::kAll), got);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "rope_pairing");
}

TEST_F(LogitsAlone, NeedTheTokens) {
  WrongPairs kernels;
  const Comparison comparison =
      compare(model_.get(), log(right_, "ref", LogitsForm::kAll, false),
              log(logits_of(*model_, kernels), "got", LogitsForm::kAll, false));
  EXPECT_THAT(comparison.causes, IsEmpty());
  EXPECT_THAT(comparison.cause_hint, HasSubstr("'tokens' in a log's header"));
}

// Breaks if the nearest mistake were named where none was made: of float32's size and of
// bfloat16's.
TEST_F(LogitsAlone, NameNothingForNoise) {
  for (const float size : {0x1p-24F, 0x1p-9F}) {
    SmallNoise kernels(size);
    const Logits noisy = logits_of(*model_, kernels);
    for (const auto form : {LogitsForm::kAll, LogitsForm::kHeadAndSketch, LogitsForm::kTop20}) {
      const Comparison comparison =
          compare(model_.get(), log(right_, "ref", form), log(noisy, "got", form), 1e-9);
      EXPECT_FALSE(comparison.pass);
      EXPECT_THAT(comparison.causes, IsEmpty()) << size << comparison.causes[0].sentence;
    }
  }
}

// The same architecture and sizes with weights that were quantised.
TEST_F(LogitsAlone, NameNothingForAnotherModel) {
  const Model quantised(
      std::make_shared<Gguf>(source_path("golden/tinyllama/tinyllama-q4_k_m.gguf")));
  const Logits others = logits_of(quantised, *make_reference_kernels());
  for (const auto form : {LogitsForm::kAll, LogitsForm::kHeadAndSketch, LogitsForm::kTop20}) {
    const std::string ref = log(right_, "ref", form);
    const std::string got = log(others, "got", form);
    EXPECT_THAT(compare(model_.get(), ref, got).causes, IsEmpty());
    EXPECT_THAT(compare(&quantised, ref, got).causes, IsEmpty());
  }
}

}  // namespace
}  // namespace assay
