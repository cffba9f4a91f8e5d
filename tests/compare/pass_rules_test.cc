// The rules that make a pass a proof, where two whole logs show them best.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "assay/compare/several.h"
#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"
#include "tests/compare/made_records.h"

namespace assay {
namespace {

using testing::ElementsAre;

const float kPointer = std::bit_cast<float>(0x7FFFU);  // the high half of an address

class PassRulesTest : public ComparisonTest {
 protected:
  // The first `head` values of `whole`, and these members of its summary (JSON).
  static std::string part(const std::vector<float>& whole, size_t head, const std::string& members,
                          const std::string& more = "") {
    return line("layer_0_output", 0,
                {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(head)},
                fmt::format(R"(,"n":{},"summary":{{{}}}{})", whole.size(), members, more));
  }

  static std::string extremes(const std::vector<float>& whole) {
    const Summary summary = summarize(whole);
    return fmt::format(R"("min":{},"max":{},"mean":{})", summary.min, summary.max, summary.mean);
  }

  static std::string l2(const std::vector<float>& whole) {
    return fmt::format(R"("l2":{})", summarize(whole).l2);
  }

  static std::string sketch(const std::vector<float>& whole) {
    return fmt::format(R"(,"sketch":[{}])", fmt::join(compute_sketch(whole), ","));
  }

  static std::string header(const std::string& tokens) {
    return "{\"assay\":1,\"tokens\":[" + tokens + "]}\n";
  }

  // Holds every record to 3e-6, as a manifest with a floor of 1e-6 does, and asks for whole
  // evidence.
  void ask_as_a_manifest() {
    options_.policy = Policy([](const std::string&) { return Tolerance{3e-6, {}, {}, 1e-6}; });
    options_.whole_required = true;
  }

  // Embeddings and logits of tokens `from` to 7 of one run, as positions `shift` later.
  static std::string run(int from = 0, int shift = 0) {
    std::string log;
    for (int token = from; token < 8; ++token) {
      log += line("embedding", token + shift, random_values(64, static_cast<unsigned>(token)));
      log += line("logits", token + shift, random_values(64, static_cast<unsigned>(100 + token)));
    }
    return log;
  }

  // Logits of which twenty from 100 on share the maximum.
  static std::vector<float> level_values() {
    std::vector<float> level = random_values(896, 5);
    std::fill_n(level.begin() + 100, 20, 12.0F);
    return level;
  }

  // A head of these and a summary: engines may list other five of the twenty, and call another one
  // the argmax.
  static std::string level_logits(int first_listed, int argmax) {
    const std::vector<float> level = level_values();
    const Summary summary = summarize(level);
    std::vector<std::string> top;
    for (int i = 0; i < 5; ++i) top.push_back(fmt::format("[{},12]", first_listed + i));
    return line("logits", 0, {level.begin(), level.begin() + 10},
                fmt::format(R"(,"n":896,"summary":{{"min":{},"max":12,"mean":{},"l2":{},)"
                            R"("argmax":{},"top":[{}],"nonfinite":0}})",
                            summary.min, summary.mean, summary.l2, argmax, fmt::join(top, ",")));
  }

  // Two greedy generations after a prompt of 3 that go on with other tokens, at level candidates,
  // after token 4. `seed` says which of the two; `end` may change a record after the split.
  static std::string generation(
      int seed, const std::string& tokens = "1,2,3",
      const std::function<void(const std::string&, int, std::vector<float>&)>& change = {}) {
    std::string log = tokens.empty() ? "" : header(tokens);
    for (int token = 0; token < 8; ++token) {
      const auto of = static_cast<unsigned>(token <= 4 ? token : token * 10 + seed);
      for (const std::string name : {"embedding", "logits"}) {
        std::vector<float> values = random_values(64, of + (name == "logits" ? 1000 : 0));
        if (name == "logits" && token == 4) {
          values[5] = 12;
          values[6] = seed == 1 ? 12 - 1e-5F : 12 + 1e-5F;
        }
        if (change) change(name, token, values);
        log += line(name, token, values);
      }
    }
    return log;
  }
};

// (a) Breaks if a summary without a norm and four values passed beside each other.
TEST_F(PassRulesTest, SummaryOfAnotherTensorFailsBesideValues) {
  const std::string values = line("layer_0_output", 0, {1, 2, 3, 4});
  const std::string wide =
      line("layer_0_output", 0, {}, R"(,"n":4,"summary":{"min":-900,"max":900,"mean":2.5})");
  const std::string right =
      line("layer_0_output", 0, {}, R"(,"n":4,"summary":{"min":1,"max":4,"mean":2.5})");
  EXPECT_EQ(compare(values, right).evidence.partial, 1);
  EXPECT_EQ(compare(values, wide).verdict, Verdict::kWrong);
  EXPECT_EQ(compare(wide, values).verdict, Verdict::kWrong);
  ask_as_a_manifest();
  EXPECT_EQ(compare(values, wide).verdict, Verdict::kWrong);
  EXPECT_EQ(compare(wide, values).verdict, Verdict::kWrong);
  EXPECT_EQ(compare(values, right).verdict, Verdict::kIncomplete) << "a part is not the whole";
  EXPECT_EQ(compare(values, right).evidence.unproven, 1);
  EXPECT_TRUE(compare(values, values).pass);
}

// (b) Breaks if the data could move what the same tokens in both headers settle.
TEST_F(PassRulesTest, OffsetInTheDataFailsIfTheHeadersNameTheSameTokens) {
  const std::string tokens = header("1,2,3,4,5,6,7,8");
  EXPECT_TRUE(compare(tokens + run(), tokens + run()).pass);
  const Comparison late = compare(tokens + run(), tokens + run(0, 1));
  EXPECT_FALSE(late.pass);
  EXPECT_EQ(late.alignment.offset, 0);
  EXPECT_GT(late.failed, 0);
  // Without them it is an offset, and no token is lost by it.
  EXPECT_EQ(compare(run(), run(0, 1)).alignment.offset, 1);
  EXPECT_TRUE(compare(run(), run(0, 1)).pass);
}

// (b) Breaks if what an offset leaves out is not looked at.
TEST_F(PassRulesTest, NaNInDroppedTokensFails) {
  const auto before = [](float value) {
    std::vector<float> values = random_values(64, 50);
    values[9] = value;
    return line("embedding", 0, values) + line("logits", 0, random_values(64, 51));
  };
  const Comparison good = compare(run(), before(1) + run(0, 1));
  EXPECT_EQ(good.alignment.offset, 1);
  EXPECT_EQ(good.verdict, Verdict::kIncomplete) << "headers would have to show a token before";
  for (const float bad : {NAN, INFINITY}) {
    const Comparison comparison = compare(run(), before(bad) + run(0, 1));
    EXPECT_EQ(comparison.alignment.offset, 1);
    EXPECT_EQ(comparison.verdict, Verdict::kWrong);
    ASSERT_TRUE(comparison.first_divergence);
    EXPECT_EQ(comparison.first_divergence->metric, Metric::kNonfinite);
    EXPECT_EQ(comparison.first_divergence->checkpoint.name, "embedding");
  }
  // Headers show the same: the judged engine puts a token before.
  const Comparison told =
      compare(header("2,3,4,5") + run(), header("1,2,3,4,5") + before(NAN) + run(0, 1));
  EXPECT_EQ(told.alignment.offset, 1);
  EXPECT_EQ(told.verdict, Verdict::kWrong);
}

// (c) Breaks if of several logs one that has each record a token late agreed with the others.
TEST_F(PassRulesTest, OneOfThreeLogsLaggingByATokenFails) {
  const std::string tokens = header("1,2,3,4,5,6,7,8");
  for (const std::string& head : {tokens, std::string()}) {
    const std::string a = put("a.jsonl", head + run());
    const std::string b = put("b.jsonl", head + run());
    EXPECT_EQ(compare_several({a, b, put("c.jsonl", head + run())}, {}).consensus,
              Consensus::kAgree);
    const SeveralComparison shorter = compare_several({a, b, put("c.jsonl", head + run(1, 0))}, {});
    EXPECT_NE(shorter.consensus, Consensus::kAgree);
    EXPECT_TRUE(shorter.pairs[0].pass);
    for (const size_t pair : {1, 2}) EXPECT_FALSE(shorter.pairs[pair].pass);
  }
  // Each record a token late: another run by its tokens; without them the same, counted from 1.
  const SeveralComparison counted = compare_several(
      {put("a.jsonl", run()), put("b.jsonl", run()), put("c.jsonl", run(0, 1))}, {});
  EXPECT_EQ(counted.consensus, Consensus::kAgree);
  const SeveralComparison several =
      compare_several({put("a.jsonl", tokens + run()), put("b.jsonl", tokens + run()),
                       put("c.jsonl", tokens + run(0, 1))},
                      {});
  EXPECT_EQ(several.consensus, Consensus::kOutlier);
  EXPECT_THAT(several.outliers, ElementsAre(2U));
}

// (d) Breaks if garbage in the reference's head switched off its statements about the whole tensor.
TEST_F(PassRulesTest, GarbageInTheReferenceDoesNotHideAWrongTensor) {
  const std::vector<float> whole = random_values(896, 1);
  std::vector<float> wrong = whole;
  std::reverse(wrong.begin() + 20, wrong.end());
  for (float& value : std::span(wrong).subspan(20)) value = 1.5F * value + 1;
  std::vector<float> heap = whole;
  std::copy_n(std::vector<float>{1e30F, kPointer, -1e20F, kPointer}.begin(), 4, heap.begin());
  std::vector<float> out_of_scale = whole;
  out_of_scale[7] = 3e20F;
  const std::vector<std::string> statements = {l2(whole), extremes(whole), l2(whole),
                                               R"("nonfinite":0)"};
  for (const std::vector<float>& head : {heap, out_of_scale}) {
    for (size_t i = 0; i < statements.size(); ++i) {
      const std::string ref = part(head, 10, statements[i], i >= 2 ? sketch(whole) : "");
      const Comparison right = compare(ref, line("layer_0_output", 0, whole));
      EXPECT_TRUE(right.pass) << statements[i];
      EXPECT_GT(right.quarantined, 0) << statements[i];
      EXPECT_FALSE(compare(ref, line("layer_0_output", 0, wrong)).pass) << statements[i];
      EXPECT_FALSE(
          compare(ref, part(wrong, 10, l2(wrong) + "," + extremes(wrong), sketch(wrong))).pass)
          << statements[i];
    }
  }
}

// (d) The rest of the head still holds.
TEST_F(PassRulesTest, GarbageInTheReferenceDoesNotHideAWrongNeighbour) {
  const std::vector<float> whole = random_values(896, 1);
  std::vector<float> heap(whole.begin(), whole.begin() + 10);
  std::vector<float> wrong = heap;
  wrong[8] += 9;
  const std::string right = line("layer_0_output", 0, heap, R"(,"n":896)");
  std::copy_n(std::vector<float>{1e30F, kPointer}.begin(), 2, heap.begin());
  const std::string ref = line("layer_0_output", 0, heap, R"(,"n":896)");
  EXPECT_TRUE(compare(ref, right).pass);
  EXPECT_FALSE(compare(ref, line("layer_0_output", 0, wrong, R"(,"n":896)")).pass);
}

// (e) Breaks if extremes and mean counted only beside a norm.
TEST_F(PassRulesTest, ChecksExtremesAndMeanWithoutANorm) {
  const auto log = [](double min, double max, double mean) {
    return line(
        "layer_0_output", 0, {},
        fmt::format(R"(,"n":896,"summary":{{"min":{},"max":{},"mean":{}}})", min, max, mean));
  };
  const std::string ref = log(-6, 7, 0.1);
  EXPECT_EQ(compare(ref, ref).evidence.partial, 1);
  EXPECT_TRUE(compare(ref, log(-6.0001, 7.0001, 0.1)).pass);
  EXPECT_FALSE(compare(ref, log(-6, 8, 0.1)).pass);
  EXPECT_FALSE(compare(ref, log(-5, 7, 0.1)).pass);
  EXPECT_FALSE(compare(ref, log(-6, 7, 0.3)).pass);
  // Against values, of which all numbers are known.
  const std::vector<float> whole = random_values(896, 2);
  std::vector<float> scaled = whole;
  for (float& value : scaled) value *= 1.5F;
  EXPECT_TRUE(compare(part(whole, 0, extremes(whole)), line("layer_0_output", 0, whole)).pass);
  EXPECT_FALSE(compare(part(whole, 0, extremes(whole)), line("layer_0_output", 0, scaled)).pass);
}

// (f) Breaks if a sketch and a norm, which have no statement in common, could not contradict.
TEST_F(PassRulesTest, ContradictingSketchAndNormFail) {
  const std::vector<float> whole = random_values(896, 3);
  const auto log = [&](const std::string& more) { return line("layer_0_output", 0, {}, more); };
  const std::string ref = log(",\"n\":896" + sketch(whole));
  const auto norm = [&](double factor) {
    return log(fmt::format(R"(,"n":896,"summary":{{"l2":{}}})", factor * summarize(whole).l2));
  };
  for (const double factor : {0.0, 0.01, 0.3, 3.0, 100.0}) {
    EXPECT_EQ(compare(ref, norm(factor)).failed, 1) << factor;
    EXPECT_EQ(compare(norm(factor), ref).failed, 1) << factor;
  }
  EXPECT_EQ(compare(ref, norm(1)).verdict, Verdict::kIncomplete)
      << "that an estimate is near proves nothing";
}

// (g) Breaks if a tensor with an element too many passed by what both have in common.
TEST_F(PassRulesTest, OneExtraElementFails) {
  const std::vector<float> whole = random_values(896, 4);
  const auto head = [&](const std::string& checkpoint, int n) {
    return line(checkpoint, 0, {whole.begin(), whole.begin() + 10},
                fmt::format(R"(,"n":{},"summary":{{"l2":{}}})", n, summarize(whole).l2));
  };
  for (const char* checkpoint : {"layer_0_output", "logits"}) {
    EXPECT_TRUE(compare(head(checkpoint, 895), head(checkpoint, 895)).pass);
    for (const auto& [ref, got] : {std::pair(895, 896), {896, 895}}) {
      const Comparison comparison = compare(head(checkpoint, ref), head(checkpoint, got));
      EXPECT_EQ(comparison.verdict, Verdict::kWrong) << checkpoint;
      ASSERT_TRUE(comparison.first_divergence);
      EXPECT_EQ(comparison.first_divergence->metric, Metric::kSize);
      EXPECT_EQ(comparison.first_divergence->value, got);
      EXPECT_EQ(comparison.first_divergence->tolerance, ref);
    }
  }
}

// (h) Breaks if the judged log could call a part of the prompt generated, and so be excused.
TEST_F(PassRulesTest, JudgedHeaderEndingThePromptEarlyExcusesNothing) {
  const Comparison split = compare(generation(1), generation(2));
  EXPECT_TRUE(split.pass);
  ASSERT_TRUE(split.split);
  EXPECT_EQ(split.split->token_idx, 5);
  EXPECT_EQ(split.evidence.excused, 6);
  const std::string all = "1,2,3,4,5,6,7,8";
  for (const std::string tokens : {"1,2,3", "1", "1,2,3,4,5", "1,2,3,4,5,6,7,8"}) {
    const Comparison comparison = compare(generation(1, all), generation(2, tokens));
    EXPECT_FALSE(comparison.pass) << tokens;
    EXPECT_FALSE(comparison.split) << tokens;
    EXPECT_EQ(comparison.evidence.excused, 0) << tokens;
  }
}

// (i) Breaks if a NaN were excused with the records after a split.
TEST_F(PassRulesTest, NaNAfterASplitFails) {
  for (const std::string name : {"embedding", "logits"}) {
    for (const int token : {5, 7}) {
      const Comparison comparison =
          compare(generation(1),
                  generation(2, "1,2,3", [&](const std::string& checkpoint, int at, auto& values) {
                    if (checkpoint == name && at == token) values[3] = NAN;
                  }));
      EXPECT_EQ(comparison.verdict, Verdict::kWrong) << name << token;
      // A NaN in the very record that would show another token leaves no split to see.
      const bool hides_split = name == "embedding" && token == 5;
      EXPECT_EQ(comparison.split.has_value(), !hides_split) << name << token;
      EXPECT_EQ(comparison.failed, hides_split ? 6 : 1) << name << token;
      ASSERT_TRUE(comparison.first_divergence);
      EXPECT_EQ(comparison.first_divergence->token_idx, token);
      EXPECT_EQ(comparison.first_divergence->metric, Metric::kNonfinite);
    }
  }
}

// Breaks if a record that contradicts itself were excused, or looked at only beside another.
TEST_F(PassRulesTest, AContradictionFailsWhateverItIsComparedWith) {
  EXPECT_FALSE(compare(run(), run() + line("k", 2, {1, 2}, R"(,"summary":{"l2":99})")).pass);
  std::string after = generation(2);
  after.insert(after.rfind("\"values\""), R"("summary":{"l2":99},)");
  EXPECT_FALSE(compare(generation(1), after).pass);
}

// (i) Breaks if a checkpoint that the reference does not have could hold anything.
TEST_F(PassRulesTest, NaNInAnExtraCheckpointFails) {
  const std::string own = line("layer_3_k", 2, {1, 2, 3});
  EXPECT_TRUE(compare(run(), run() + own).pass);
  for (const std::string& bad :
       {line("layer_3_k", 2, {1, NAN, 3}), line("layer_3_k", 2, {1, INFINITY, 3}),
        line("layer_3_k", 2, {1}, R"(,"n":9,"summary":{"l2":3,"nonfinite":1})"),
        line("layer_3_k", 2, {1}, R"(,"n":9,"summary":{"l2":3,"nonfinite":1,"nan":1})")}) {
    const Comparison comparison = compare(run(), run() + bad);
    EXPECT_EQ(comparison.verdict, Verdict::kWrong) << bad;
    EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_3_k");
    EXPECT_EQ(comparison.first_divergence->token_idx, 2);
    EXPECT_EQ(comparison.unmatched_got, 1);
  }
}

// (j) What engines write rightly, in forms that are not Assay's own, passes.

TEST_F(PassRulesTest, MoreThanFiveElementsMayShareTheMaximum) {
  const std::string all = line("logits", 0, level_values());
  const std::string first = level_logits(100, 100);
  for (const std::string& other : {first, all, level_logits(104, 104)}) {
    EXPECT_TRUE(compare(first, other).pass) << other;
  }
  EXPECT_TRUE(compare(all, level_logits(110, 110)).pass);
  EXPECT_EQ(compare(first, level_logits(110, 110)).verdict, Verdict::kIncomplete) << "not listed";
}

// Breaks if the value of a stated argmax were unknown where others that are level are listed, or
// none: its value is the maximum.
TEST_F(PassRulesTest, ReferenceArgmaxMayBeOutsideItsTopList) {
  const std::string ref = level_logits(110, 119);
  EXPECT_TRUE(compare(ref, ref).pass);
  EXPECT_TRUE(compare(ref, level_logits(110, 110)).pass);
  EXPECT_EQ(compare(ref, line("logits", 0, level_values())).verdict, Verdict::kIncomplete)
      << "the list does not have 100, which comes first of all that are level";
  const std::string values = line("logits", 0, {5, 5, 1, 1, 1, 1, 1, 5, 1});
  const std::string unlisted =
      line("logits", 0, {}, R"(,"n":9,"summary":{"l2":9,"max":5,"argmax":7})");
  EXPECT_TRUE(compare(values, unlisted).pass);
}

TEST_F(PassRulesTest, ValuesMayBeNestedArrays) {
  const std::string flat = line("layer_0_q", 0, {1, 2, 3, 4, 5, 6});
  const auto nested = [](const std::string& values) {
    return R"({"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[2,3],"values":)" +
           values + "}\n";
  };
  EXPECT_EQ(compare(flat, nested("[[1,2,3],[4,5,6]]")).verdict, Verdict::kMatch);
  EXPECT_EQ(compare(nested("[[[1],[2],[3]],[[4],[5],[6]]]"), flat).evidence.whole, 1);
  EXPECT_FALSE(compare(flat, nested("[[1,3,5],[2,4,6]]")).pass) << "columns are not rows";
}

TEST_F(PassRulesTest, AcceptsRecordsOfAWholeSequence) {
  const auto sequence = [](const std::string& name, int first, int count, unsigned wrong = 99) {
    std::string values;
    for (unsigned row = 0; row < static_cast<unsigned>(count); ++row) {
      std::vector<std::string> numbers;
      for (const float value : random_values(8, static_cast<unsigned>(first) + row)) {
        numbers.push_back(fmt::format("{}", row == wrong ? -value : value));
      }
      values += fmt::format("{}[{}]", row == 0 ? "" : ",", fmt::join(numbers, ","));
    }
    return fmt::format(
               R"({{"checkpoint":"{}","token_idx":{},"dtype":"f32","shape":[{},8],"values":[{}]}})",
               name, first, count, values) +
           "\n";
  };
  std::string single;
  for (int token = 0; token < 4; ++token) {
    single += line("embedding", token, random_values(8, static_cast<unsigned>(token)));
    single += line("layer_0_q", token, random_values(8, static_cast<unsigned>(token)));
  }
  const std::string whole = sequence("embedding", 0, 4) + sequence("layer_0_q", 0, 4);
  const std::string halves = sequence("embedding", 0, 2) + sequence("layer_0_q", 0, 2) +
                             sequence("embedding", 2, 2) + sequence("layer_0_q", 2, 2);
  for (const std::string& got : {whole, halves}) {
    for (const auto& [a, b] : {std::pair(single, got), {got, single}}) {
      const Comparison comparison = compare(a, b);
      EXPECT_EQ(comparison.verdict, Verdict::kMatch);
      EXPECT_EQ(comparison.evidence.whole, 8);
    }
  }
  const Comparison one =
      compare(single, sequence("embedding", 0, 4) + sequence("layer_0_q", 0, 4, 2));
  EXPECT_EQ(one.failed, 1);
  EXPECT_EQ(one.first_divergence->token_idx, 2);
  const Comparison fewer =
      compare(single, sequence("embedding", 0, 3) + whole.substr(whole.find('\n') + 1));
  EXPECT_EQ(fewer.verdict, Verdict::kIncomplete);
  EXPECT_EQ(fewer.evidence.first_unproven->token_idx, 3);
}

// Breaks if a name of the engine's own hid where two logs first diverge.
// Breaks if the id of another expert passed because the two numbers are near each other.
TEST_F(PassRulesTest, IdsOfExpertsAreEqualOrFail) {
  const auto log = [](float id) {
    return line("layer_0_experts", 0, {120, id, 90, 77}) + line("logits", 0, {1, 2, 3, 4});
  };
  EXPECT_TRUE(compare(log(121), log(121)).pass);
  const Comparison other = compare(log(121), log(122));
  EXPECT_FALSE(other.pass);
  ASSERT_TRUE(other.first_divergence);
  EXPECT_EQ(other.first_divergence->checkpoint.name, "layer_0_experts");
}

TEST_F(PassRulesTest, CustomNamesSortByTheirPlaceInTheFile) {
  const auto log = [](float scale) {
    std::vector<float> off = random_values(64, 9);
    for (float& value : off) value *= scale;
    return line("embedding", 0, random_values(64, 1)) + line("zz_scores", 0, off) +
           line("layer_0_output", 0, off) + line("a_rest", 0, off) + line("logits", 0, off);
  };
  const Comparison comparison = compare(log(1), log(2));
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "zz_scores");
  std::vector<std::string> names;
  for (const RecordResult& result : comparison.results) {
    names.push_back(comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name);
  }
  EXPECT_THAT(names, ElementsAre("embedding", "zz_scores", "layer_0_output", "a_rest", "logits"));
}

// Breaks if logits whose log-probabilities were compared were called missing.
TEST_F(PassRulesTest, LogProbabilitiesReplaceMissingLogits) {
  const Comparison comparison = compare(line("logits", 0, {std::log(3.0F), 0}),
                                        line("logprobs", 0, {std::log(0.75F), std::log(0.25F)}));
  EXPECT_EQ(comparison.evidence.whole, 1);
  EXPECT_THAT(comparison.warnings, testing::IsEmpty());
}

// A list of the most probable tokens beside logits of all kinds.
TEST_F(PassRulesTest, ProbableTokensPassBesideLogits) {
  const std::vector<float> logits = random_values(64, 6);
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value));
  std::vector<float> logprobs = logits;
  for (float& value : logprobs) value -= static_cast<float>(std::log(sum));
  const auto list = [&](int count, float more) {
    std::vector<std::string> pairs;
    std::vector<float> rest = logprobs;
    for (int i = 0; i < count; ++i) {
      const auto at = std::max_element(rest.begin(), rest.end());
      pairs.push_back(fmt::format("[{},{}]", at - rest.begin(), *at + (i == 0 ? more : 0)));
      *at = -INFINITY;
    }
    return line("logprobs", 0, {}, fmt::format(R"(,"n":64,"top":[{}])", fmt::join(pairs, ",")));
  };
  const std::string all = line("logprobs", 0, logprobs);
  const std::string values = line("logits", 0, logits);
  for (const int count : {1, 5, 20}) {
    for (const std::string& ref : {values, all, list(count, 0)}) {
      const Comparison comparison = compare(ref, list(count, 0));
      EXPECT_TRUE(comparison.pass) << count;
      EXPECT_EQ(comparison.evidence.partial, 1) << count;
      EXPECT_EQ(comparison.argmax_agree, 1) << count;
      EXPECT_FALSE(compare(ref, list(count, 0.3F)).pass) << count;
    }
  }
  EXPECT_EQ(compare(values, all).evidence.whole, 1);
  EXPECT_EQ(compare(all, values).evidence.whole, 1);
  std::vector<float> wrong = logprobs;
  std::reverse(wrong.begin(), wrong.end());
  EXPECT_FALSE(compare(values, line("logprobs", 0, wrong)).pass);
}

}  // namespace
}  // namespace assay
