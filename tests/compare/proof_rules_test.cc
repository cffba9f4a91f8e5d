// What the search for wrong logs that pass has found, each as a case of its own.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

class ProofRulesTest : public ComparisonTest {
 protected:
  static std::vector<float> logits() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> values(64);
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
  }

  static std::vector<float> log_softmax(std::vector<float> values) {
    double sum = 0;
    for (const float value : values) sum += std::exp(static_cast<double>(value));
    for (float& value : values) value -= static_cast<float>(std::log(sum));
    return values;
  }

  // The ten most probable tokens, and what `more` adds to each.
  static std::vector<TopValue> top_of(const std::vector<float>& values, float more = 0) {
    const std::vector<float> logs = log_softmax(values);
    std::vector<TopValue> top;
    for (size_t i = 0; i < logs.size(); ++i)
      top.push_back({static_cast<int64_t>(i), logs[i] + more});
    std::sort(top.begin(), top.end(),
              [](const TopValue& a, const TopValue& b) { return a.value > b.value; });
    top.resize(10);
    return top;
  }

  static std::string logprobs(const std::vector<TopValue>& top,
                              const std::vector<float>& values = {}) {
    std::vector<std::string> pairs;
    for (const TopValue& entry : top) {
      const std::string value = std::isnan(entry.value)   ? "\"NaN\""
                                : std::isinf(entry.value) ? "\"-Infinity\""
                                                          : fmt::format("{}", entry.value);
      pairs.push_back(fmt::format("[{},{}]", entry.index, value));
    }
    return line("logprobs", 0, values,
                fmt::format(",\"n\":64,\"top\":[{}]", fmt::join(pairs, ",")));
  }

  // The summary alone, as CONTRACT has it.
  static std::string summary(const std::vector<float>& values) {
    const Summary s = summarize(values);
    std::vector<std::string> top;
    for (const TopValue& entry : s.top) {
      top.push_back(fmt::format("[{},{}]", entry.index, entry.value));
    }
    return line(
        "logits", 0, {},
        fmt::format(R"(,"n":{},"summary":{{"min":{},"max":{},"mean":{},"l2":{},"argmax":{},)"
                    R"("top":[{}],"nonfinite":0}})",
                    values.size(), s.min, s.max, s.mean, s.l2, s.argmax, fmt::join(top, ",")));
  }
};

// Breaks if log-probabilities pass that cannot be: of logits whose summary alone is known any
// constant would do.
TEST_F(ProofRulesTest, ProbabilitiesNotSummingToOneFail) {
  EXPECT_TRUE(compare(summary(logits()), logprobs(top_of(logits()))).pass);
  for (const float more : {9.0F, 1.0F, -1.0F}) {
    EXPECT_FALSE(compare(summary(logits()), logprobs(top_of(logits(), more))).pass) << more;
  }
}

// Breaks if a constant that all logits share, which changes no probability, hides wrong ones: 1 %
// of 100 is a whole nat.
TEST_F(ProofRulesTest, ListsAreHeldToProbabilitiesWhateverTheLogitsShare) {
  std::vector<float> shifted = logits();
  for (float& value : shifted) value -= 100.0F;
  const std::string ref = line("logits", 0, shifted);
  EXPECT_TRUE(compare(ref, logprobs(top_of(logits()))).pass);
  for (const float temperature : {0.6F, 1.8F}) {
    std::vector<float> other = logits();
    for (float& value : other) value /= temperature;
    EXPECT_FALSE(compare(ref, logprobs(top_of(other))).pass) << temperature;
  }
}

// Breaks if -Infinity among the most probable tokens is held to nothing.
TEST_F(ProofRulesTest, ImpossibleReferenceTokenFails) {
  std::vector<TopValue> top = top_of(logits());
  top.back().value = -INFINITY;
  EXPECT_EQ(compare(line("logits", 0, logits()), logprobs(top)).failed, 1);
  EXPECT_EQ(compare(summary(logits()), logprobs(top)).failed, 1);
  EXPECT_EQ(compare(logprobs(top_of(logits())), logprobs(top)).failed, 1);
}

// Breaks if nobody reads `top` beside all values.
TEST_F(ProofRulesTest, TopTokensContradictedByValuesFail) {
  const std::vector<float> values = log_softmax(logits());
  std::vector<TopValue> top = top_of(logits());
  EXPECT_TRUE(compare(line("logits", 0, logits()), logprobs(top, values)).pass);
  std::swap(top.front().index, top.back().index);
  EXPECT_EQ(compare(line("logits", 0, logits()), logprobs(top, values)).failed, 1);
  top = top_of(logits());
  top[3].value = NAN;
  EXPECT_EQ(compare(line("logits", 0, logits()), logprobs(top, values)).failed, 1);
}

// Breaks if a NaN is overlooked where the judged log has both names of the tensor.
TEST_F(ProofRulesTest, NaNInExtraLogProbabilitiesFails) {
  std::vector<TopValue> top = top_of(logits());
  top[3].value = NAN;
  const std::string right = line("logits", 0, logits());
  EXPECT_EQ(compare(right, right + logprobs(top)).failed, 1);
}

// Breaks if logits that the judged log states twice are held to the reference under one name only.
TEST_F(ProofRulesTest, WrongLogProbabilitiesBesideRightLogitsFail) {
  const std::string right = line("logits", 0, logits());
  const std::string restated = line("logprobs", 0, log_softmax(logits()));
  EXPECT_TRUE(compare(right, right + restated).pass);
  EXPECT_TRUE(compare(restated, restated + right).pass);
  std::vector<float> wrong = logits();
  std::reverse(wrong.begin(), wrong.end());
  const Comparison comparison = compare(right, right + line("logprobs", 0, log_softmax(wrong)));
  EXPECT_EQ(comparison.failed, 1);
  ASSERT_TRUE(comparison.first_divergence);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "logprobs");
  EXPECT_EQ(comparison.evidence.whole, 1);
  EXPECT_EQ(compare(restated, restated + line("logits", 0, wrong)).failed, 1);
  EXPECT_EQ(compare(right, right + logprobs(top_of(wrong))).failed, 1);
}

// Breaks if a sketch is held to nothing where the other log has none.
TEST_F(ProofRulesTest, SketchesOfNonfiniteTensorsFail) {
  const std::vector<float> head = waves(16);
  for (const char* sum : {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""}) {
    const std::string sketch = fmt::format(",\"n\":32,\"sketch\":[{}{}]", sum, [] {
      std::string rest;
      for (size_t i = 1; i < kSketchSize; ++i) rest += ",0.5";
      return rest;
    }());
    const std::string right = line("layer_0_output", 0, head, ",\"n\":32");
    const std::string wrong = line("layer_0_output", 0, head, sketch);
    EXPECT_EQ(compare(right, wrong).failed, 1) << sum;
    EXPECT_EQ(compare(wrong, right).verdict, Verdict::kIncomplete) << sum;
    const std::string alone = line("layer_1_output", 0, head, sketch);
    EXPECT_EQ(compare(right, right + alone).failed, 1) << sum;
  }
}

// Breaks if an engine that logs a checkpoint without a value passes where it may leave it out.
TEST_F(ProofRulesTest, AllowMissingDoesNotCoverWhatIsThere) {
  const std::string both = line("layer_0_output", 0, waves(16));
  const std::string head = line("layer_1_output", 0, waves(16), ",\"n\":32");
  const std::string least = line("layer_1_output", 0, {}, R"(,"n":32,"summary":{"argmax":1})");
  EXPECT_EQ(compare(both + head, both + least).verdict, Verdict::kIncomplete);
  options_.allow_missing = {"layer_1_*"};
  const std::string none = line("layer_1_output", 0, {}, R"(,"n":32)");
  const std::string zeros = line("layer_1_output", 0, std::vector<float>(4), R"(,"n":32)");
  for (const std::string& got : {least, none}) {
    const Comparison there = compare(both + head, both + got);
    EXPECT_EQ(there.verdict, Verdict::kIncomplete) << got;
    EXPECT_EQ(there.evidence.unproven, 1);
    EXPECT_EQ(there.evidence.first_unproven->checkpoint.name, "layer_1_output");
    EXPECT_EQ(there.evidence.excused, 0);
    EXPECT_EQ(compare(both + got, both + head).verdict, Verdict::kIncomplete) << got;
  }
  EXPECT_EQ(compare(both + zeros, both + zeros).verdict, Verdict::kIncomplete);
  const Comparison missing = compare(both + head, both);
  EXPECT_TRUE(missing.pass);
  EXPECT_EQ(missing.evidence.excused, 1);
  EXPECT_EQ(missing.evidence.whole, 1);
}

// Breaks if log-probabilities are recognised by all values alone.
TEST_F(ProofRulesTest, SummariesOfLogProbabilitiesAreRecognised) {
  const Comparison part = compare(summary(logits()), summary(log_softmax(logits())));
  EXPECT_TRUE(part.pass);
  EXPECT_EQ(part.evidence.partial, 1) << "any constant fits";
  EXPECT_THAT(part.warnings,
              testing::Contains(testing::HasSubstr("a constant was taken from each")));
  EXPECT_TRUE(compare(summary(log_softmax(logits())), summary(logits())).pass);
  options_.whole_required = true;
  EXPECT_EQ(compare(summary(logits()), summary(log_softmax(logits()))).verdict,
            Verdict::kIncomplete);
  options_.whole_required = false;
  std::vector<float> wrong = log_softmax(logits());
  std::reverse(wrong.begin(), wrong.end());
  EXPECT_FALSE(compare(summary(logits()), summary(wrong)).pass);
}

// Breaks if a tie inside the prompt that the judged log's header names excuses what follows.
TEST_F(ProofRulesTest, TieInThePromptOfTheOnlyHeaderIsNoSplit) {
  std::vector<float> level(16, 0.1F);
  level[3] = 1;
  level[5] = 1 - 1e-6F;
  std::vector<float> other = level;
  std::swap(other[3], other[5]);
  const auto log = [](const std::vector<float>& at_0, int seed) {
    return line("embedding", 0, waves(16)) + line("logits", 0, at_0) +
           line("embedding", 1, waves(16, seed)) + line("logits", 1, waves(16, seed + 1));
  };
  const std::string header = R"({"assay":1,"tokens":[1,7]})"
                             "\n";
  EXPECT_FALSE(compare(log(level, 5), header + log(other, 9)).pass);
}

// Breaks if the constant between logits and log-probabilities costs memory by the size that a line
// claims.
TEST_F(ProofRulesTest, AHugeVocabularyIsNoHugeSketch) {
  const auto record = [](double max) {
    return line("logits", 0, {},
                fmt::format(R"(,"n":1099511627776,"sketch":[{}],"summary":{{"min":-9,"max":{},)"
                            R"("mean":-3,"l2":3000000,"argmax":1,"top":[[1,{}]],"nonfinite":0}})",
                            fmt::join(std::vector<int>(64, 1), ","), max, max));
  };
  EXPECT_NO_THROW(compare(record(9), record(-0.5)));
}

// Breaks if logits of zeros are held to the norm of a padding that both have: padding was taken for
// the scale of the logits.
TEST_F(ProofRulesTest, ZerosBesidePaddingFail) {
  std::vector<float> right = logits();
  std::vector<float> zeros(64, 0.0F);
  right.insert(right.end(), 9, -1e30F);
  zeros.insert(zeros.end(), 9, -1e30F);
  EXPECT_EQ(compare(line("logits", 0, right), line("logits", 0, zeros)).failed, 1);
}

// Breaks if a tie of logs of heads, of which whole evidence is asked, is a divergence.
TEST_F(ProofRulesTest, SplitIsIncompleteIfWholeEvidenceIsRequired) {
  const auto log = [](int first, int seed) {
    const auto part = [](const std::string& name, int64_t token, int of) {
      return line(name, token, waves(16, of), ",\"n\":32");
    };
    const std::string choice = fmt::format(
        R"(,"n":32,"summary":{{"max":1,"argmax":{},"top":[[{},1],[{},0.9999999]],"nonfinite":0}})",
        first, first, first == 20 ? 21 : 20);
    return R"({"assay":1,"tokens":[1]})"
           "\n" +
           part("embedding", 0, 0) + line("logits", 0, waves(16, 1), choice) +
           part("embedding", 1, seed);
  };
  EXPECT_TRUE(compare(log(20, 5), log(21, 9)).pass);
  options_.whole_required = true;
  EXPECT_EQ(compare(log(20, 5), log(21, 9)).verdict, Verdict::kIncomplete);
}

// Breaks if all log-probabilities, with another sum than 1, passed beside a reference of heads.
TEST_F(ProofRulesTest, LogProbabilitiesAreHeldToTheirSum) {
  std::vector<float> values = log_softmax(logits());
  EXPECT_TRUE(compare(summary(logits()), line("logprobs", 0, values)).pass);
  for (float& value : values) value += 0.06F;
  const Comparison wrong = compare(summary(logits()), line("logprobs", 0, values));
  ASSERT_EQ(wrong.failed, 1);
  EXPECT_TRUE(wrong.results[0].contradicts_itself);
}

// Breaks if the advice to narrow a comparison to the logits did not know their other name.
TEST_F(ProofRulesTest, LogProbabilitiesAreSelectedAsLogits) {
  const std::string ref = line("layer_0_output", 0, waves(16)) + line("logits", 0, logits());
  const std::string got = line("logprobs", 0, log_softmax(logits()));
  for (const char* set : {"logits", "logprobs", "logits,layer_*_output"}) {
    options_.selection = {};
    options_.selection.set_checkpoints(set, "--checkpoints");
    EXPECT_EQ(compare(ref, got).failed, 0) << set;
    EXPECT_EQ(compare(ref, got).compared, 1) << set;
  }
}

}  // namespace
}  // namespace assay
