#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "assay/compare/compare_logs.h"
#include "assay/log/log_writer.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

// A run of a small model: `tokens` records of each of `layers` layer outputs and of the logits,
// where `damage` may change each.
std::string run_of(
    int layers, int tokens,
    const std::function<void(const std::string&, int, std::vector<float>&)>& damage) {
  std::string log;
  for (int token = 0; token < tokens; ++token) {
    for (int layer = 0; layer <= layers; ++layer) {
      const std::string name =
          layer < layers ? "layer_" + std::to_string(layer) + "_output" : "logits";
      std::mt19937 random(static_cast<unsigned>(1000 * token + layer));
      std::normal_distribution<float> normal(0, 2);
      std::vector<float> values(64);
      for (float& value : values) value = normal(random);
      if (damage) damage(name, token, values);
      std::string line = "{\"checkpoint\":\"" + name + "\",\"token_idx\":" + std::to_string(token) +
                         ",\"dtype\":\"f32\",\"shape\":[64],\"values\":[";
      for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) line += ',';
        append_json_number(line, values[i]);
      }
      log += line + "]}\n";
    }
  }
  return log;
}

void scale(std::vector<float>& values, float factor) {
  for (float& value : values) value *= factor;
}

TEST_F(ComparisonTest, Verdicts) {
  EXPECT_EQ(verdict({1, 2, 3}, {1, 2, 3}), Verdict::kMatch);
  EXPECT_EQ(verdict({1, 2, 3}, {1, 2, 3.01F}), Verdict::kNoise);
  EXPECT_EQ(verdict({100, 100.001F, 1}, {100.002F, 100.001F, 1}), Verdict::kTieFlip);
  EXPECT_EQ(verdict({1, 2, 3}, {1, 2, 3.2F}), Verdict::kDrift);
  EXPECT_EQ(verdict({1, 2, 3}, {3, 2, 1}), Verdict::kWrong);
  EXPECT_EQ(verdict({0, 0, 0}, {0, 0, 0}), Verdict::kInconclusive);
  EXPECT_EQ(verdict({0, 0, 0}, {0, 0, 1}), Verdict::kWrong);
}

TEST_F(ComparisonTest, RegretAboveTheErrorIsNoTie) {
  // 0.5 % off, yet the reference prefers its first candidate by more than any single error.
  const Comparison comparison = compare(line("logits", 0, {100, 99.1F, 100, 100, 100}),
                                        line("logits", 0, {99.4F, 99.6F, 99.4F, 99.4F, 99.4F}));
  EXPECT_FALSE(comparison.pass);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "argmax");
  EXPECT_EQ(comparison.argmax_agree, 0);
  EXPECT_EQ(comparison.argmax_total, 1);
}

TEST_F(ComparisonTest, StrictArgmaxRejectsTies) {
  options_.strict_argmax = true;
  const Comparison comparison =
      compare(line("logits", 0, {100, 100.001F, 1}), line("logits", 0, {100.002F, 100.001F, 1}));
  EXPECT_EQ(comparison.verdict, Verdict::kTieFlip);
  EXPECT_FALSE(comparison.pass);
}

TEST_F(ComparisonTest, NaNFailsOnOneSideAndOnBoth) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto mode : {QuarantineMode::kExclude, QuarantineMode::kFail, QuarantineMode::kOff}) {
    options_.quarantine = mode;
    EXPECT_EQ(verdict({1, nan, 3}, {1, 2, 3}), Verdict::kWrong);
    EXPECT_EQ(verdict({1, 2, 3}, {1, nan, 3}), Verdict::kWrong);
    EXPECT_EQ(verdict({1, nan, 3}, {1, nan, 3}), Verdict::kWrong);
    EXPECT_EQ(verdict({1, infinity, 3}, {1, 2, 3}), Verdict::kWrong);
    EXPECT_EQ(verdict({1, infinity, 3}, {1, -infinity, 3}), Verdict::kWrong);
    EXPECT_EQ(verdict({1, 2, -infinity, -infinity}, {1, 2, -infinity, -infinity}), Verdict::kMatch);
  }
}

TEST_F(ComparisonTest, FirstDivergenceIsByTokenThenNetworkOrder) {
  const std::string ref = run_of(4, 3, {});
  const std::string got = run_of(4, 3, [](const std::string& name, int token, auto& values) {
    if ((name == "layer_2_output" && token == 1) || (name == "layer_0_output" && token == 2)) {
      scale(values, 2);
    }
  });
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.compared, 15);
  EXPECT_EQ(comparison.failed, 2);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_2_output");
  EXPECT_EQ(comparison.first_divergence->checkpoint.layer, 2);
  EXPECT_EQ(comparison.first_divergence->checkpoint.op, "output");
  EXPECT_EQ(comparison.first_divergence->token_idx, 1);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "rel_l2");
  EXPECT_NEAR(comparison.first_divergence->value, 1, 1e-6);
}

TEST_F(ComparisonTest, ErrorGrowingOverLayersIsDrift) {
  const auto grow = [](const std::string& name, int, std::vector<float>& values) {
    const int layer = name == "logits" ? 6 : name[6] - '0';
    scale(values, 1 + 0.001F * std::pow(2.0F, static_cast<float>(layer)));
  };
  const Comparison comparison = compare(run_of(6, 2, {}), run_of(6, 2, grow));
  EXPECT_EQ(comparison.verdict, Verdict::kDrift);
  EXPECT_EQ(comparison.first_divergence->checkpoint.name, "layer_4_output");
  EXPECT_EQ(comparison.drift.trend, Drift::Trend::kIncreasing);
  EXPECT_NEAR(comparison.drift.growth_per_layer, 2, 0.01);
  ASSERT_TRUE(comparison.drift.layers);
  EXPECT_NEAR(comparison.drift.layers->first, 0.001, 1e-5);
  EXPECT_NEAR(comparison.drift.layers->last, 0.032, 1e-4);
  EXPECT_FALSE(comparison.drift.layers->jump);
  EXPECT_THAT(comparison.drift.sentence(),
              testing::StartsWith("error grows from 0.001 at layer 0 to 0.032 at layer 5; "));
}

// Breaks if the ends told were those of a line through them, which one step tilts.
TEST_F(ComparisonTest, ReportsTheMeasuredErrorsOfBothEnds) {
  const auto damage = [](float before) {
    return [=](const std::string& name, int token, std::vector<float>& values) {
      const int layer = name == "logits" ? 6 : name[6] - '0';
      scale(values, layer < 4 || token == 0 ? 1 + before : 1.5F);
    };
  };
  const Drift drift = compare(run_of(6, 5, {}), run_of(6, 5, damage(0.001F))).drift;
  EXPECT_GT(drift.growth_per_layer, 3);
  ASSERT_TRUE(drift.layers && drift.layers->jump);
  EXPECT_EQ(drift.layers->jump->at, 4);
  EXPECT_EQ(drift.sentence(),
            "error grows from 0.001 at layer 0 to 0.5 at layer 5, with a jump at layer 4, from "
            "0.001 to 0.5; error grows from 0.001 at token 0 to 0.5 at token 4, with a jump at "
            "token 1, from 0.001 to 0.5");
  // From no error at all.
  const Drift from_zero = compare(run_of(6, 5, {}), run_of(6, 5, damage(0))).drift;
  EXPECT_EQ(from_zero.trend, Drift::Trend::kIncreasing);
  EXPECT_THAT(from_zero.sentence(),
              testing::StartsWith("error grows from 0 at layer 0 to 0.5 at layer 5, with a jump at "
                                  "layer 4, from 0 to 0.5; "));
  EXPECT_EQ(compare(run_of(6, 5, {}), run_of(6, 5, {})).drift.sentence(), "");
}

TEST_F(ComparisonTest, SuddenErrorIsWrongAndSoIsWhatFollows) {
  const auto jump = [](const std::string& name, int, std::vector<float>& values) {
    const int layer = name == "logits" ? 6 : name[6] - '0';
    scale(values, layer < 3 ? 1.0001F : 1.1F);
  };
  const Comparison comparison = compare(run_of(6, 1, {}), run_of(6, 1, jump));
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  for (const RecordResult& result : comparison.results) {
    EXPECT_TRUE(!result.failed() || result.status == Verdict::kWrong);
  }
}

TEST_F(ComparisonTest, ReportsAShrinkingError) {
  const auto shrink = [](const std::string& name, int, std::vector<float>& values) {
    const int layer = name == "logits" ? 6 : name[6] - '0';
    scale(values, 1 + 0.005F / std::pow(2.0F, static_cast<float>(layer)));
  };
  const Comparison comparison = compare(run_of(6, 1, {}), run_of(6, 1, shrink));
  EXPECT_EQ(comparison.verdict, Verdict::kNoise);
  EXPECT_EQ(comparison.drift.trend, Drift::Trend::kDecreasing);
}

TEST_F(ComparisonTest, FindsAShiftOfTheTokens) {
  const std::string ref = run_of(1, 8, {});
  std::string got = run_of(1, 8, {});
  for (int token = 7; token >= 0; --token) {
    const std::string from = "\"token_idx\":" + std::to_string(token) + ",";
    const std::string to = "\"token_idx\":" + std::to_string(token + 1) + ",";
    for (size_t at = 0; (at = got.find(from, at)) != std::string::npos;) {
      got.replace(at, from.size(), to);
    }
  }
  const Comparison found = compare(ref, got);
  EXPECT_EQ(found.verdict, Verdict::kMatch);
  EXPECT_EQ(found.alignment.offset, 1);
  EXPECT_GT(found.alignment.confidence, 0.9);
  EXPECT_EQ(found.compared, 16);
  options_.align = AlignMode::kIndex;
  EXPECT_EQ(compare(ref, got).verdict, Verdict::kWrong);
  options_.align = AlignMode::kFixed;
  options_.offset = 1;
  EXPECT_EQ(compare(ref, got).verdict, Verdict::kMatch);
}

TEST_F(ComparisonTest, FindsAnEngineThatCountsFromItsFirstGeneratedToken) {
  const std::string ref = line("logits", 40, {1, 2, 3, 4}) + line("logits", 41, {4, -3, 2, 1}) +
                          line("logits", 42, {-1, 1, 0, 2});
  const std::string got = line("logits", 0, {1, 2, 3, 4}) + line("logits", 1, {4, -3, 2, 1}) +
                          line("logits", 2, {-1, 1, 0, 2});
  EXPECT_EQ(compare(ref, got).alignment.offset, -40);
}

// Breaks if a wrong engine were aligned until it looks right.
TEST_F(ComparisonTest, WrongValuesAreNotAlignedAway) {
  const Comparison comparison =
      compare(run_of(2, 8, {}), run_of(2, 8, [](auto&, int, auto& values) { scale(values, -1); }));
  EXPECT_EQ(comparison.alignment.offset, 0);
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
}

TEST_F(ComparisonTest, RejectsLogsOfDifferentInputs) {
  const auto header = [](const std::string& tokens, const std::string& prompt) {
    return "{\"assay\":1,\"tokens\":[" + tokens + "],\"prompt\":\"" + prompt + "\"}\n";
  };
  const std::string record = line("logits", 0, {1, 2});
  EXPECT_THAT(failure(header("1,2,3", "a") + record, header("1,7,3", "a") + record),
              testing::AllOf(HasSubstr("got.jsonl:1: other tokens than the reference"),
                             HasSubstr("at position 1 it has 7, the reference 2")));
  EXPECT_THAT(failure(header("", "a") + record, header("", "b") + record),
              HasSubstr("another prompt"));
  EXPECT_EQ(failure(header("1,2", "a") + record, header("1,2,3", "b") + record), "no error");
  options_.align = AlignMode::kFixed;
  EXPECT_EQ(failure(header("1,2", "a") + record, header("3,4", "b") + record), "no error");
}

TEST_F(ComparisonTest, RejectsLogsWithNothingInCommon) {
  EXPECT_THAT(failure(line("logits", 0, {1}), line("q", 0, {1})),
              HasSubstr("no record in common with the reference"));
  options_.align = AlignMode::kIndex;
  EXPECT_THAT(failure(line("logits", 0, {1}), line("logits", 1, {1})), HasSubstr("no record"));
  options_.align = AlignMode::kFixed;
  options_.offset = 50;
  EXPECT_THAT(failure(line("logits", 0, {1}), line("logits", 1, {1})),
              HasSubstr("the reference has 1 checkpoint such as logits at tokens 0 to 0, the other "
                        "1 checkpoint such as logits at tokens 1 to 1: leave --align out, or"));
}

TEST_F(ComparisonTest, UnmatchedRecordsAreCountedAndStillChecked) {
  const std::string ref = line("logits", 0, {1, 2}) + line("q", 0, {1});
  const std::string got = line("logits", 0, {1, 2}) + line("k", 0, {1}) + line("k", 1, {1});
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.unmatched_ref, 1);
  EXPECT_EQ(comparison.unmatched_got, 2);
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
  ASSERT_TRUE(comparison.evidence.first_unproven);
  EXPECT_EQ(comparison.evidence.first_unproven->checkpoint.name, "q");
  EXPECT_THAT(failure(ref, got +
                               R"({"checkpoint":"z","token_idx":1,"dtype":"f","shape":[2],)"
                               R"("values":[1,,2]})" +
                               "\n"),
              HasSubstr("got.jsonl:4: 'values': '' is not a number (element 1)"));
}

TEST_F(ComparisonTest, TheSameRecordTwice) {
  const std::string once = line("logits", 0, {1, 2});
  EXPECT_EQ(compare(once + once, once).compared, 1);
  EXPECT_THAT(failure(once, once + line("logits", 0, {1, 3})),
              HasSubstr("got.jsonl:2: 'logits' at token 0 was logged before, in line 1, with other "
                        "values: value 1 was 2 and is 3"));
}

// Breaks if the second record of a name were dropped because its head is the first one's.
TEST_F(ComparisonTest, DuplicateRecordsMustBeEqualAsAWhole) {
  const std::string once = line("q", 0, {}, sketch_of(1));
  EXPECT_TRUE(compare(once, once + once).pass);
  EXPECT_THAT(failure(once, once + line("q", 0, {}, sketch_of(-50))),
              HasSubstr("got.jsonl:2: 'q' at token 0 was logged before, in line 1, with other "
                        "values: its sketch is another"));
  const auto norm = [](int l2) {
    return line("q", 0, {1}, fmt::format(R"(,"n":9,"summary":{{"l2":{}}})", l2));
  };
  EXPECT_TRUE(compare(norm(1), norm(1) + norm(1)).pass);
  EXPECT_THAT(failure(norm(1), norm(1) + norm(2)), HasSubstr("its summary is another"));
  const auto probable = [](const char* logprob) {
    return fmt::format(R"({{"checkpoint":"logprobs","token_idx":0,"dtype":"f32","shape":[4],"n":4,)"
                       R"("values":[],"top":[[2,{}]]}})"
                       "\n",
                       logprob);
  };
  EXPECT_TRUE(compare(probable("-0.5"), probable("-0.5") + probable("-0.5")).pass);
  EXPECT_THAT(failure(probable("-0.5"), probable("-0.5") + probable("-1")),
              HasSubstr("its 'top' is another"));
  const auto shaped = [](const std::string& shape) {
    std::string text = line("q", 0, {1, 2, 3, 4});
    return text.replace(text.find("[1,4]"), 5, shape);
  };
  EXPECT_TRUE(compare(shaped("[4]"), shaped("[1,4]") + shaped("[4]")).pass);
  EXPECT_THAT(failure(shaped("[4]"), shaped("[4]") + shaped("[2,2]")),
              HasSubstr("its shape is another"));
}

// Breaks if each repetition read the first record again: these would be 8 GB.
TEST_F(ComparisonTest, RepeatedRecordsTakeLinearTime) {
  const std::string first =
      line("q", 0, {1}, ",\"x\":\"" + std::string(size_t{1} << 20, 'y') + "\"");
  std::string many = first;
  for (int i = 0; i < 8000; ++i) many += line("q", 0, {1});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(compare(first, many).compared, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(ComparisonTest, LimitsTheLengthOfNames) {
  EXPECT_EQ(failure(line("logits", 0, {1}),
                    line("logits", 0, {1}) + line(std::string(4096, 'a'), 0, {1})),
            "no error");
  EXPECT_THAT(failure(line("logits", 0, {1}), line(std::string(4097, 'a'), 0, {1})),
              HasSubstr("got.jsonl:1: the checkpoint's name has 4097 bytes, more than 4096"));
}

// Breaks if a tensor of another size ended the comparison, or passed.
TEST_F(ComparisonTest, RecordOfAnotherSizeFailsAlone) {
  const Comparison comparison = compare(line("k", 3, {1, 2}) + line("q", 3, {1, 2}),
                                        line("k", 3, {1, 2}) + line("q", 3, {1, 2, 3}));
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.compared, 2);
  EXPECT_EQ(comparison.failed, 1);
  EXPECT_EQ(comparison.first_divergence->metric, Metric::kSize);
  EXPECT_EQ(comparison.first_divergence->value, 3);
  EXPECT_EQ(comparison.first_divergence->tolerance, 2);
}

TEST_F(ComparisonTest, QuarantineExcludesListsOrFails) {
  const std::vector<float> clean = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<float> dirty = clean;
  dirty[5] = -3e20F;
  const std::string ref = line("logits", 4, dirty);
  const std::string got = line("logits", 4, clean);
  const Comparison excluded = compare(ref, got);
  EXPECT_EQ(excluded.verdict, Verdict::kMatch);
  EXPECT_EQ(excluded.results[0].metrics.compared, 11);
  ASSERT_EQ(excluded.quarantine.size(), 1U);
  EXPECT_TRUE(excluded.quarantine[0].in_ref);
  EXPECT_EQ(excluded.quarantine[0].token_idx, 4);
  EXPECT_EQ(excluded.quarantine[0].garbage.index, 5);
  EXPECT_EQ(excluded.quarantine[0].garbage.reason, GarbageReason::kMagnitude);
  options_.quarantine = QuarantineMode::kFail;
  const Comparison failed = compare(ref, got);
  EXPECT_FALSE(failed.pass);
  EXPECT_EQ(metric_name(failed.first_divergence->metric), "quarantine");
  options_.quarantine = QuarantineMode::kOff;
  const Comparison plain = compare(ref, got);
  EXPECT_EQ(plain.verdict, Verdict::kWrong);
  EXPECT_NEAR(plain.results[0].metrics.max_abs, 3e20, 1e15);
  EXPECT_EQ(plain.quarantined, 0);
}

// Breaks if one exploded value of the engine under test were excused as garbage of its log.
TEST_F(ComparisonTest, OutOfScaleValueInTheJudgedLogIsListedAndFails) {
  const Comparison comparison =
      compare(line("q", 0, {1, 2, 3, 4, 5, 6, 7, 8}), line("q", 0, {1, 2, 3, 4, 5, 1e30F, 7, 8}));
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  ASSERT_EQ(comparison.quarantine.size(), 1U);
  EXPECT_FALSE(comparison.quarantine[0].in_ref);
}

// Breaks if heads and norms were all that is looked at.
TEST_F(ComparisonTest, DisagreeingSummariesFail) {
  const auto head = [](const std::string& more) {
    return line("q", 0, {1, 2}, ",\"n\":9,\"summary\":{\"l2\":8" + more + "}");
  };
  const std::string ref = head(",\"min\":-3,\"max\":5,\"mean\":0.5");
  EXPECT_EQ(compare(ref, ref).verdict, Verdict::kMatch);
  EXPECT_TRUE(compare(ref, head("")).pass) << "a summary may leave numbers out";
  EXPECT_FALSE(compare(ref, head(",\"min\":-3,\"max\":6,\"mean\":0.5")).pass);
  EXPECT_FALSE(compare(ref, head(",\"min\":-3,\"max\":5,\"mean\":0.6")).pass);
}

// Breaks if a NaN that only the summary knows of passed because the heads agree.
TEST_F(ComparisonTest, NaNBeyondTheHeadFailsEvenOnBothSides) {
  const auto head = [](const std::string& more) {
    return line("logits", 0, {1, 2}, ",\"n\":9,\"summary\":{\"l2\":3" + more + "}");
  };
  EXPECT_TRUE(compare(head(",\"nonfinite\":0"), head(",\"nonfinite\":0")).pass);
  const std::string nan = head(",\"nonfinite\":2,\"nan\":1");
  EXPECT_FALSE(compare(nan, nan).pass);
  const std::string unknown = head(",\"nonfinite\":2");
  EXPECT_FALSE(compare(unknown, unknown).pass) << "it may be a NaN";
  const std::string infinities = head(",\"nonfinite\":2,\"nan\":0");
  EXPECT_TRUE(compare(infinities, infinities).pass) << "padding of the vocabulary";
}

// Breaks if garbage in the head hid what the summary knows of the rest.
TEST_F(ComparisonTest, NaNBeyondAHeadWithGarbageFails) {
  const float pointer = std::bit_cast<float>(0x7FFFU);
  const auto head = [](float second, int nonfinite) {
    return line(
        "q", 0, {0.1F, second, 0.7F, 1, -0.5F, 0.3F, 0.2F, -0.9F, 0.8F, 0.6F},
        ",\"n\":1000,\"summary\":{\"l2\":20,\"nonfinite\":" + std::to_string(nonfinite) + "}");
  };
  const Comparison nan = compare(head(-0.2F, 0), head(pointer, 900));
  EXPECT_EQ(nan.quarantined, 2);
  EXPECT_FALSE(nan.pass);
  EXPECT_EQ(metric_name(nan.first_divergence->metric), "nonfinite");
  EXPECT_EQ(nan.first_divergence->value, 900);
  EXPECT_EQ(compare(head(-0.2F, 0), head(pointer, 0)).evidence.partial, 1) << "norms still hold";
}

// Breaks if an engine could say by itself which of its logits count.
TEST_F(ComparisonTest, OneSidedInfinityIsListed) {
  const Comparison comparison =
      compare(line("q", 0, {1, 2, 3, 4}), line("q", 0, {1, 2, INFINITY, 4}));
  EXPECT_FALSE(comparison.pass);
  ASSERT_EQ(comparison.quarantine.size(), 1U);
  EXPECT_EQ(comparison.quarantine[0].garbage.reason, GarbageReason::kNonfinite);
}

TEST_F(ComparisonTest, ComparesAPaddedVocabularyWithAWarning) {
  std::vector<float> padded = waves(60);
  const std::string ref = line("logits", 0, padded);
  padded.resize(64, -1.5F);
  const Comparison comparison = compare(ref, line("logits", 0, padded));
  EXPECT_TRUE(comparison.pass);
  ASSERT_EQ(comparison.warnings.size(), 1U);
  EXPECT_THAT(comparison.warnings[0], HasSubstr("the first 60 are compared"));
  // One element more is no padding, and neither are some that lead to no multiple.
  padded.resize(61);
  EXPECT_EQ(compare(ref, line("logits", 0, padded)).first_divergence->metric, Metric::kSize);
  padded.resize(63, -1.5F);
  EXPECT_FALSE(compare(ref, line("logits", 0, padded)).pass);
  padded.resize(60);
  padded.resize(63, -INFINITY);
  EXPECT_TRUE(compare(ref, line("logits", 0, padded)).pass) << "rows that are masked";
}

// Breaks if a log of as many logits as the reference has told which of a longer row is the largest.
TEST_F(ComparisonTest, APaddedVocabularyInPartIsNoWholeOne) {
  const std::vector<float> values = waves(60);
  const std::string ref = line("logits", 0, values);
  const std::string got = line("logits", 0, values, ",\"n\":64");
  const Comparison comparison = compare(ref, got);
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.evidence.partial, 1);
  EXPECT_EQ(comparison.evidence.argmax_known, 0);
  options_.whole_required = true;
  EXPECT_FALSE(compare(ref, got).pass);
}

// Breaks if an engine that blows up were excused as a log with garbage.
TEST_F(ComparisonTest, ManyOutOfScaleValuesAreAWrongTensor) {
  std::vector<float> clean(400), broken;
  for (size_t i = 0; i < clean.size(); ++i) clean[i] = static_cast<float>(i % 17) - 8.5F;
  broken = clean;
  for (size_t i = 100; i < 110; ++i) broken[i] = 1e12F;
  EXPECT_EQ(compare(line("q", 0, clean), line("q", 0, broken)).verdict, Verdict::kWrong);
}

TEST_F(ComparisonTest, SharedMassiveActivationIsNoGarbage) {
  std::vector<float> a(400, 1.0F);
  for (size_t i = 0; i < a.size(); i += 2) a[i] = -1;
  a[7] = 1e9F;
  std::vector<float> b = a;
  b[7] = 1.2e9F;
  const Comparison comparison = compare(line("q", 0, a), line("q", 0, b));
  EXPECT_EQ(comparison.quarantined, 0);
  EXPECT_FALSE(comparison.pass);
}

// Breaks if a result depended on how many threads there are.
TEST_F(ComparisonTest, ThreadsDoNotChangeResults) {
  const std::string ref = run_of(5, 20, {});
  const std::string got = run_of(5, 20, [](auto&, int token, auto& values) {
    scale(values, 1 + 0.001F * static_cast<float>(token));
  });
  options_.n_threads = 1;
  const Comparison one = compare(ref, got);
  options_.n_threads = 4;
  const Comparison four = compare(ref, got);
  ASSERT_EQ(one.results.size(), four.results.size());
  for (size_t i = 0; i < one.results.size(); ++i) {
    EXPECT_EQ(one.results[i].metrics.rel_l2, four.results[i].metrics.rel_l2);
    EXPECT_EQ(one.results[i].checkpoint, four.results[i].checkpoint);
    EXPECT_EQ(one.results[i].status, four.results[i].status);
  }
}

TEST_F(ComparisonTest, PolicyAppliesToItsCheckpoints) {
  options_.policy = Policy::from_file(put("p.json", R"({"checkpoints":{"q":{"max_abs":0.1}}})"));
  const Comparison comparison = compare(line("q", 0, {1, 2}) + line("k", 0, {100, 2}),
                                        line("q", 0, {1, 2.2F}) + line("k", 0, {100.2F, 2}));
  EXPECT_EQ(comparison.failed, 1);
  EXPECT_EQ(metric_name(comparison.first_divergence->metric), "max_abs");
  EXPECT_EQ(comparison.first_divergence->tolerance, 0.1);
}

}  // namespace
}  // namespace assay
