#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class OtherPrompt : public FaultyLogs {
 protected:
  // The right kernels run `tokens`.
  std::string log_of(const std::vector<int32_t>& tokens, const std::string& name,
                     const std::string& checkpoints) {
    prompt_ = tokens;
    const auto right = make_reference_kernels();
    return log(*model_, *right, name, checkpoints);
  }

  Comparison judge(const std::string& ref, const std::string& got, const CompareOptions& options) {
    Comparison comparison = compare_logs(ref, got, options);
    find_causes(model_.get(), comparison);
    return comparison;
  }

  void expect_hint(const Comparison& comparison, const std::string& words) {
    ASSERT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.causes, IsEmpty());
    EXPECT_THAT(comparison.error_sources, IsEmpty());
    EXPECT_THAT(comparison.cause_hint,
                AllOf(HasSubstr(words), HasSubstr("log both with the same")));
  }

  std::shared_ptr<Model> model_ = load("tinyllama");
  const std::vector<int32_t> all_ = {1, 45, 120, 7, 201, 33, 90, 250, 16, 77, 150, 64};
};

// Breaks if a mistake of the network were named where the judged engine was right and lacked BOS:
// the positions differ by one, and attention reads other tokens.
TEST_F(OtherPrompt, IsNoMistakeOfTheNetwork) {
  const std::vector<int32_t> without(all_.begin() + 1, all_.end());
  for (const char* checkpoints : {"layers", "ops", "logits"}) {
    const std::string ref = log_of(all_, "ref", checkpoints);
    const std::string got = log_of(without, "got", checkpoints);
    const Comparison left_out = judge(ref, got, {});
    EXPECT_EQ(left_out.alignment.offset, -1);
    expect_hint(left_out, "lacks the first token of the reference's (1): ");
    expect_hint(judge(got, ref, {}), "has 1 token before the reference's (1): ");
    CompareOptions fixed;
    fixed.align = AlignMode::kFixed;
    fixed.offset = -1;
    expect_hint(judge(ref, got, fixed), "the two prompts differ at token ");
  }
}

// Breaks if BOS twice, where both prompts begin with the same token, were not seen.
TEST_F(OtherPrompt, BosTwiceIsAnotherPrompt) {
  std::vector<int32_t> twice = all_;
  twice.insert(twice.begin(), 1);
  const std::string ref = log_of(all_, "ref", "layers");
  const std::string got = log_of(twice, "got", "layers");
  expect_hint(judge(ref, got, {}), "has 1 token before the reference's (1): ");
}

// Breaks if a mistake were no longer looked for where the prompts differ only after it.
TEST_F(OtherPrompt, TokensAfterTheDivergenceDoNotMatter) {
  std::vector<int32_t> other = all_;
  other.back() += 1;
  const std::string ref = log_of(all_, "ref", "layers");
  const std::string got = log_of(other, "got", "layers");
  CompareOptions fixed;
  fixed.align = AlignMode::kFixed;
  expect_hint(judge(ref, got, fixed), "the two prompts differ at token 11 or before");
  Negated negated(Checkpoint::kAttnOut);
  const std::string wrong = log(*model_, negated, "wrong", "layers");
  const Comparison early = judge(ref, wrong, fixed);
  EXPECT_EQ(early.first_divergence->token_idx, 0);
  EXPECT_EQ(early.cause_hint.find("prompts differ"), std::string::npos);
}

}  // namespace
}  // namespace assay
