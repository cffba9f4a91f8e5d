// Logs of logits whose headers name the prompt, and not what was generated after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "assay/causes/own_tokens.h"
#include "kernels/reference/reference.h"
#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kPromptAlone = 12;

class PairsAfterThePrompt : public WrongKernels {
 protected:
  void rope(RopeCall call) override {
    if (call.site.first_position >= kPromptAlone) call.pairing = other(call.pairing);
    right_->run(call);
  }
};

class NoMaskInThePrompt : public WrongKernels {
 protected:
  void attention(AttentionCall call) override {
    reference::AttentionVariant variant{.n_keys = call.first_position + call.n_tokens};
    variant.sees = [](int64_t query, int64_t key) { return key <= query || key < kPromptAlone; };
    reference::run(call, variant);
  }
};

class PromptAlone : public LogitsLogs {
 protected:
  // The prompt at once and each of the other tokens by itself.
  Logits logits_of_steps(Kernels& kernels, std::span<const int32_t> all) {
    Session session(*model_, kernels, {.capacity = 64});
    LogitsProbe probe;
    session.eval(all.first(kPromptAlone), &probe);
    for (size_t i = kPromptAlone; i < all.size(); ++i) session.eval(all.subspan(i, 1), &probe);
    return std::move(probe.rows);
  }

  // After the prompt the likeliest, as a greedy engine chooses.
  std::vector<int32_t> generate() {
    const std::vector<bool> choosable = causes::choosable_ids(*model_);
    const auto kernels = make_reference_kernels();
    std::vector<int32_t> tokens = {1, 45, 120, 7, 201, 33, 90, 250, 16, 77, 150, 64};
    while (tokens.size() < 20) {
      std::vector<float> last = logits_of_steps(*kernels, tokens).back();
      for (size_t i = 0; i < last.size(); ++i) {
        if (!choosable[i]) last[i] = -1e9F;
      }
      tokens.push_back(static_cast<int32_t>(std::ranges::max_element(last) - last.begin()));
    }
    return tokens;
  }

  Comparison found(Kernels& wrong) {
    const Logits right = logits_of_steps(*make_reference_kernels(), all_);
    const Logits faulty = logits_of_steps(wrong, all_);
    const std::vector<int32_t> prompt(all_.begin(), all_.begin() + kPromptAlone);
    const auto write = [&](const Logits& logits, const std::string& name) {
      return log(logits, name, LogitsForm::kAll, prompt);
    };
    return compare(model_.get(), write(right, "ref"), write(faulty, "got"), 1e-5);
  }

  const std::shared_ptr<Model> model_ = load("tinyllama");
  const std::vector<int32_t> all_ = generate();
};

TEST_F(PromptAlone, WhatLogitsChooseAfterItIsKnown) {
  PairsAfterThePrompt wrong;
  const Comparison comparison = found(wrong);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "rope_pairing");
  EXPECT_EQ(comparison.causes[0].token_idx, kPromptAlone);
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("from token 12 on every layer's q_rope"));
}

TEST_F(PromptAlone, ShowsWhatItsTokensReadOfLaterOnes) {
  NoMaskInThePrompt wrong;
  const Comparison comparison = found(wrong);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "attention_mask");
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr("attend to all of it (no causal mask)"));
}

}  // namespace
}  // namespace assay
