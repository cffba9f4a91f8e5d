// Goldens of float64, of layers alone, held to logs of this engine: which differ by float's noise
// where nothing is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The result of the last product of layer 1 times a factor next to 1.
class NearlyRight : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != Checkpoint::kFfnOut || call.site.layer != 1) return;
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) call.out[i] *= 1.00003F;
  }
};

class GoldenReference : public FaultyLogs {
 protected:
  // gpt2's golden up to the end of the prompt.
  std::string golden() {
    std::ifstream lines(source_path("golden/gpt2/f32.jsonl"));
    std::string prompt;
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find("\"token_idx\":");
      if (at == std::string::npos || std::stoll(line.substr(at + 12)) < std::ssize(prompt_)) {
        prompt += line + "\n";
      }
    }
    return put("golden.jsonl", prompt);
  }

  void SetUp() override {
    FaultyLogs::SetUp();
    prompt_ = {38,  47,  52, 220, 266, 72, 74, 84, 259, 282, 259,
               284, 267, 72, 69,  83,  88, 12, 78, 302, 25,  220};
  }
};

// Breaks if a difference a few times that of the layers before it were taken for theirs, where the
// judged log alone holds the wrong op: that led to the embedding, which is right.
TEST_F(GoldenReference, IsNotBlamedForASmallErrorOfTheJudgedLog) {
  const auto model = load("gpt2");
  NearlyRight wrong;
  const Comparison comparison =
      compare(model.get(), golden(),
              log(*model, wrong, "got", "ops", kAllValues, KvType::kF32, prompt_.size()), 2e-6);
  ASSERT_TRUE(comparison.first_divergence);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_1_output");
  ASSERT_FALSE(comparison.causes.empty()) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].checkpoint.name, "layer_1_output");
}

// Nobody can give a golden as the judged log.
TEST_F(GoldenReference, OfAnotherModelIsNoLogToTurnRound) {
  const auto model = load("gpt2");
  const auto right = make_reference_kernels();
  Negated negated(Checkpoint::kFfnOut, 1);
  std::ifstream in(log(*model, negated, "ref", "layers"));
  std::string header;
  std::getline(in, header);
  const size_t math = header.find("\"math\":\"") + 8;
  ASSERT_GT(math, 8);
  header.replace(math, header.find('"', math) - math, "float64");
  const std::string rest(std::istreambuf_iterator<char>(in), {});
  const Comparison comparison = compare(model.get(), put("ref64.jsonl", header + "\n" + rest),
                                        log(*model, *right, "got", "layers"));
  EXPECT_THAT(comparison.causes, IsEmpty());
  EXPECT_THAT(comparison.cause_hint, HasSubstr("--model is the file that it is of"));
  EXPECT_THAT(comparison.cause_hint, Not(HasSubstr("the other way round")));
}

// A golden cannot be logged again by its user: the hint is of what the user can log.
TEST_F(GoldenReference, HintSaysWhatToLogWhereNothingExplainsTheError) {
  const auto model = load("gpt2");
  for (const char* checkpoints : {"layers", "ops"}) {
    Noise noise;
    const std::string got =
        log(*model, noise, "got", checkpoints, kAllValues, KvType::kF32, prompt_.size());
    const std::string hint = compare(model.get(), golden(), got, 2e-6).cause_hint;
    EXPECT_THAT(hint, HasSubstr("no known mistake in what lies between the checkpoints that both "
                                "logs have explains layer_0_output"));
    EXPECT_THAT(hint, Not(HasSubstr("is what its inputs give")));
    EXPECT_THAT(hint, Not(HasSubstr("log the reference")));
    EXPECT_THAT(hint, HasSubstr("assay run MODEL --follow REF --checkpoints ops"));
    EXPECT_THAT(hint, HasSubstr(checkpoints == std::string("ops")
                                    ? "the judged log has more there"
                                    : "log the judged engine with --checkpoints ops"));
  }
}

}  // namespace
}  // namespace assay
