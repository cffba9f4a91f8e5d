// What once excused a wrong engine: its own large error, its own summary, its own logits, a
// mistyped name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NoExcuseTest : public ComparisonTest {
 protected:
  // Logits with 14 at 7 and with this at 500.
  static std::vector<float> peaks(float second) {
    std::vector<float> logits = waves(20000);
    logits[7] = 14;
    logits[500] = second;
    return logits;
  }
};

// Breaks if the error of the logit that was chosen wrongly counted as noise.
TEST_F(NoExcuseTest, OneWrongLogitIsNoTie) {
  std::vector<float> ref = peaks(13.6F);
  std::vector<float> got = peaks(14.5F);
  EXPECT_EQ(verdict(ref, got), Verdict::kDrift);
  got[9] += 0.42F;
  EXPECT_EQ(verdict(ref, got), Verdict::kDrift) << "the error of one other is not that of these";
  got[9] = ref[9];
  ref[500] = 13.99F;
  got[500] = 14.01F;
  EXPECT_EQ(verdict(ref, got), Verdict::kTieFlip) << "the tolerance allows it of each element";
}

// Breaks if logits that were rounded to bfloat16, and nothing else, failed where two became one.
TEST_F(NoExcuseTest, CandidatesThatRoundingMadeLevelAreATie) {
  std::vector<float> ref(62);
  for (size_t i = 0; i < ref.size(); ++i) ref[i] = 0.0625F * static_cast<float>(i) - 3;
  std::vector<float> got = ref;
  const auto verdict_of = [&](float first, float second, float got_first, float got_second) {
    ref.resize(62);
    got.resize(62);
    ref.insert(ref.end(), {first, second});
    got.insert(got.end(), {got_first, got_second});
    return verdict(ref, got);
  };
  EXPECT_EQ(verdict_of(7.985F, 8.03F, 8, 8), Verdict::kTieFlip);
  EXPECT_EQ(verdict_of(7.985F, 8.03F, 8.01F, 8), Verdict::kDrift) << "which is a choice";
  EXPECT_EQ(verdict_of(7.9F, 8.03F, 7.97F, 7.97F), Verdict::kDrift) << "too far apart";
}

TEST_F(NoExcuseTest, WrongLogitDoesNotExcuseLaterTokens) {
  const std::vector<float> ref = peaks(13.6F);
  const std::vector<float> got = peaks(14.5F);
  const auto log = [&](const std::vector<float>& logits, int seed) {
    return line("embedding", 0, waves(64)) + line("logits", 0, logits) +
           line("embedding", 1, waves(64, seed)) + line("logits", 1, waves(64, seed));
  };
  EXPECT_EQ(metric_name(compare(log(ref, 1), log(got, 2)).first_divergence->metric), "argmax");
}

TEST_F(NoExcuseTest, FindsTheSplitUnderAnyPolicy) {
  options_.policy = Policy::from_file(put("abs.json", R"({"default":{"max_abs":1e-3}})"));
  const auto log = [&](float a, float b, int seed) {
    return line("embedding", 0, waves(64)) + line("logits", 0, {1, a, b, -3, 1 + (a - 6)}) +
           line("embedding", 1, waves(64, seed)) + line("logits", 1, waves(5, seed));
  };
  const Comparison comparison = compare(log(6, 6 - 1e-6F, 1), log(6 - 1e-6F, 6, 2));
  EXPECT_TRUE(comparison.pass);
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 1);
}

TEST_F(NoExcuseTest, SummaryOfNaNIsNoMatch) {
  const auto log = [&](const std::string& summary) {
    return line("layer_0_output", 3, waves(10),
                ",\"n\":896,\"summary\":{" + summary + ",\"nonfinite\":0}");
  };
  const std::string ref = log(R"("min":-1,"max":1,"mean":0.1,"l2":20)");
  EXPECT_TRUE(compare(ref, ref).pass);
  for (const std::string bad :
       {R"("min":-1,"max":1,"mean":0.1,"l2":"NaN")", R"("min":-1,"max":1,"mean":NaN,"l2":20)",
        R"("min":"NaN","max":"NaN","mean":"NaN","l2":"NaN","nan":0)",
        R"("min":-1,"max":"Infinity","mean":0.1,"l2":20)"}) {
    EXPECT_EQ(compare(ref, log(bad)).verdict, Verdict::kWrong) << bad;
    EXPECT_EQ(compare(log(bad), ref).verdict, Verdict::kWrong) << bad;
    EXPECT_EQ(compare(line("layer_0_output", 3, waves(10), ",\"n\":896"), log(bad)).verdict,
              Verdict::kWrong)
        << bad;
  }
  // What a summary leaves out is not known, and of no elements there is nothing to tell.
  EXPECT_TRUE(compare(log(R"("l2":20)"), log(R"("mean":0.1)")).pass);
}

TEST_F(NoExcuseTest, UnconfirmedInfinitiesAreNonfinite) {
  const std::string counts = ",\"n\":896,\"summary\":{\"l2\":20,\"nonfinite\":5,\"nan\":0}";
  const auto plain = [&](const char* name) { return line(name, 0, waves(10), ",\"n\":896"); };
  const auto counted = [&](const char* name) { return line(name, 0, waves(10), counts); };
  EXPECT_EQ(compare(plain("layer_0_output"), counted("layer_0_output")).verdict, Verdict::kWrong);
  EXPECT_TRUE(compare(counted("layer_0_output"), counted("layer_0_output")).pass);
  EXPECT_TRUE(compare(plain("logits"), counted("logits")).pass) << "padding";
}

TEST_F(NoExcuseTest, ExtraJudgedLogitsCount) {
  const std::vector<float> ref = waves(1000);
  std::vector<float> got = ref;
  got.resize(1024, -1);
  EXPECT_EQ(verdict(ref, got), Verdict::kMatch);
  got[1005] = 50;
  const Comparison chosen = compare(line("logits", 0, ref), line("logits", 0, got));
  EXPECT_EQ(metric_name(chosen.first_divergence->metric), "argmax");
  EXPECT_EQ(chosen.results[0].metrics.argmax_got, 1005);
  got[1005] = NAN;
  EXPECT_EQ(verdict(ref, got), Verdict::kWrong);
  EXPECT_EQ(verdict(got, ref), Verdict::kWrong);
}

TEST_F(NoExcuseTest, ReportsNaNOfBoth) {
  std::vector<float> values = waves(100);
  values[50] = NAN;
  const std::string log = line("embedding", 0, values);
  const Comparison comparison = compare(log, log);
  EXPECT_EQ(comparison.verdict, Verdict::kWrong);
  EXPECT_EQ(comparison.quarantined, 2);
}

TEST_F(NoExcuseTest, EqualInfinitiesHaveNoDivergence) {
  std::vector<float> logits = waves(100);
  logits[50] = INFINITY;
  options_.policy = Policy::from_file(put("kl.json", R"({"default":{"rel_l2":1e-2,"kl":1e-3}})"));
  const Comparison comparison = compare(line("logits", 0, logits), line("logits", 0, logits));
  EXPECT_TRUE(comparison.pass);
  EXPECT_FALSE(comparison.results[0].metrics.kl);
}

// Breaks if layers that neither engine computed hid among those that both did.
TEST_F(NoExcuseTest, ZerosOfBothAreCounted) {
  const std::vector<float> zeros(20);
  std::string log;
  for (int layer = 0; layer < 4; ++layer) {
    log +=
        line(fmt::format("layer_{}_output", layer), 0, layer % 2 == 0 ? waves(20, layer) : zeros);
  }
  log += line("layer_3_experts", 0, {0});  // an id
  const Comparison comparison = compare(log, log);
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(comparison.warnings, ElementsAre(HasSubstr("2 of 5 records that were compared hold "
                                                         "nothing but zeros in both logs, the "
                                                         "first layer_1_output at token 0")));
}

// Breaks if equal infinities were called zeros.
TEST_F(NoExcuseTest, EqualInfinitiesAreNotZeros) {
  const std::string log = line("embedding", 0, {INFINITY, 0, 0, 0});
  EXPECT_EQ(compare(log, log).verdict, Verdict::kMatch);
  const float pointer = std::bit_cast<float>(0x7FFFU);
  std::vector<float> zeros(20);
  zeros[1] = pointer;  // left out, and an infinity to the sums
  EXPECT_EQ(compare(line("q", 0, zeros), line("q", 0, zeros)).verdict, Verdict::kInconclusive);
}

// What norms of 32-bit sums differ by.
TEST_F(NoExcuseTest, ANormOfFloatsIsTheSame) {
  options_.policy = Policy::from_file(put("tight.json", R"({"default":{"rel_l2":1.8e-7}})"));
  const auto log = [&](double l2) {
    return line("layer_0_output", 0, waves(10),
                fmt::format(",\"n\":896,\"summary\":{{\"l2\":{}}}", l2));
  };
  EXPECT_TRUE(compare(log(20), log(20 * (1 + 3e-7))).pass);
  EXPECT_FALSE(compare(log(20), log(20 * (1 + 3e-6))).pass);
}

TEST_F(NoExcuseTest, ReportsMistypedNames) {
  const std::string log = line("layer_1_q", 0, waves(9)) + line("layer_1_v", 0, waves(9));
  options_.selection.set_checkpoints("layer_1_v,layr_1_q", "--checkpoints");
  EXPECT_THAT(failure(log, log),
              HasSubstr("--checkpoints: neither log has a checkpoint 'layr_1_q'"));
  options_.selection = {};
  options_.selection.set_checkpoints("layer_1_v,layers", "--checkpoints");
  EXPECT_TRUE(compare(log, log).pass) << "a set names none";
  options_.selection = {};
  options_.policy = Policy::from_file(
      put("policy.json", R"({"checkpoints":{"layer_1_*":{"rel_l2":0.9},"typo*":{"rel_l2":0.9}}})"));
  EXPECT_THAT(failure(log, log), HasSubstr("'typo*' matches no checkpoint of either log"));
}

TEST_F(NoExcuseTest, MissingTokensDoNotPass) {
  std::string ref;
  for (int token = 0; token < 9; ++token) {
    ref += line("embedding", token, waves(64, token)) + line("layer_0_output", token, waves(64));
  }
  const std::string got = line("embedding", 0, waves(64)) + line("layer_0_output", 0, waves(64));
  const Comparison comparison = compare(ref, got);
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
  EXPECT_EQ(comparison.evidence.whole, 2);
  EXPECT_EQ(comparison.evidence.unproven, 16);
  EXPECT_EQ(comparison.evidence.first_unproven->token_idx, 1);
  EXPECT_TRUE(compare(got, ref).pass) << "more than the reference has";
  options_.selection.set_tokens("0", "--tokens");
  EXPECT_TRUE(compare(ref, got).pass);
}

TEST_F(NoExcuseTest, WarnsOfNamesOfAnotherEngine) {
  const auto log = [&](const char* name) {
    return line("embedding", 0, waves(64)) + line(name, 0, waves(64, 1));
  };
  EXPECT_THAT(compare(log("layer_0_output"), log("l_out-0")).warnings,
              ElementsAre(HasSubstr("look like those of llama.cpp: give --map llama.cpp")));
  EXPECT_THAT(compare(log("layer_0_output"), log("first")).warnings,
              ElementsAre(testing::MatchesRegex(
                  "1 checkpoint of the reference, such as layer_0_output, is not in .*got.jsonl, "
                  "which has 1 of its own, such as first: where two are one tensor, give --map")));
}

// Breaks if a log without some of the checkpoints or records passed.
TEST_F(NoExcuseTest, MissingCheckpointsAndRecordsDoNotPass) {
  const auto log = [&](const std::vector<const char*>& names, int tokens) {
    std::string text;
    for (int token = 0; token < tokens; ++token) {
      for (const char* name : names) text += line(name, token, waves(64, token));
    }
    return text;
  };
  const std::string ref =
      log({"embedding", "layer_0_q", "layer_0_output", "layer_1_q", "logits"}, 3);
  const auto unproven = [&](const std::string& got) {
    const Comparison comparison = compare(ref, got);
    EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
    EXPECT_FALSE(comparison.pass);
    const auto& first = comparison.evidence.first_unproven;
    return fmt::format("{}: {} at {}", comparison.evidence.unproven,
                       first ? first->checkpoint.name : "none", first ? first->token_idx : -1);
  };
  EXPECT_EQ(unproven(log({"embedding", "layer_0_q"}, 3)), "9: layer_0_output at 0");
  EXPECT_EQ(unproven(log({"embedding", "layer_0_output", "logits"}, 3)), "6: layer_0_q at 0");
  EXPECT_EQ(unproven(log({"logits"}, 3)), "12: embedding at 0");
  EXPECT_EQ(unproven(log({"embedding", "layer_0_output"}, 3) + log({"logits"}, 1)),
            "8: layer_0_q at 0");
  options_.allow_missing = {"layer_*_q", "logits"};
  const Comparison allowed = compare(ref, log({"embedding", "layer_0_output"}, 3));
  EXPECT_TRUE(allowed.pass);
  EXPECT_EQ(allowed.evidence.excused, 9);
  options_.allow_missing = {"layr_*"};
  EXPECT_THAT(failure(ref, ref), HasSubstr("--allow-missing"));
  options_.allow_missing = {};
  options_.selection.set_checkpoints("embedding,logits", "--checkpoints");
  EXPECT_THAT(failure(ref, log({"embedding"}, 3)),
              HasSubstr("got.jsonl has no checkpoint 'logits'"));
  EXPECT_TRUE(compare(ref, log({"embedding", "logits"}, 3)).pass);
  // What was asked for is expected, whatever the log has.
  options_.selection = {};
  options_.selection.set_checkpoints("layer_*", "--checkpoints");
  EXPECT_EQ(unproven(log({"layer_0_output"}, 3)), "6: layer_0_q at 0");
  EXPECT_THAT(compare(ref, log({"layer_0_output", "layer_0_Q"}, 3)).warnings,
              ElementsAre(HasSubstr("such as layer_0_q, are not in")))
      << "a name that is mistyped in the log";
  options_.selection = {};
  const std::string all = log({"embedding", "layer_0_q", "layer_0_output", "final_norm"}, 3);
  EXPECT_FALSE(compare(all, log({"embedding", "layer_0_q", "layer_0_output"}, 3)).pass);
}

// Breaks if zeros at one token proved what could not be judged at all others.
TEST_F(NoExcuseTest, ZerosDoNotReplaceUnjudgedRecords) {
  const auto log = [&](const std::vector<float>& head) {
    return line("embedding", 0, waves(9)) + line("layer_0_output", 0, std::vector<float>(9)) +
           line("embedding", 1, waves(9)) + line("layer_0_output", 1, head, ",\"n\":50");
  };
  EXPECT_EQ(compare(log({}), log({})).verdict, Verdict::kIncomplete);
  EXPECT_EQ(compare(log(waves(9)), log(waves(9))).verdict, Verdict::kMatch);
}

// Breaks if a number after a NaN took its place as the largest.
TEST_F(NoExcuseTest, NaNIsNeverLost) {
  const auto head = [&](const char* checkpoint, const std::string& more) {
    return line(checkpoint, 0, waves(10), ",\"n\":1000" + more);
  };
  const auto with_sketch = [&](const std::string& first, double l2) {
    const std::vector<int> rest(kSketchSize - 1, 30);
    return head("q", fmt::format(R"(,"sketch":[{},{}],"summary":{{"l2":{}}})", first,
                                 fmt::join(rest, ","), l2));
  };
  EXPECT_TRUE(compare(with_sketch("30", 30), with_sketch("30", 30.0001)).pass);
  EXPECT_FALSE(compare(with_sketch("30", 30), with_sketch("\"NaN\"", 30.0001)).pass);
  const auto with_top = [&](const std::string& first, int second) {
    return head("logits",
                fmt::format(R"(,"summary":{{"l2":30,"argmax":100,"top":[[100,{}],[200,{}]]}})",
                            first, second));
  };
  const std::string ref = with_top("10", 9);
  EXPECT_TRUE(compare(ref, ref).pass);
  const Comparison nan = compare(ref, with_top("\"NaN\"", 9));
  ASSERT_FALSE(nan.pass);
  EXPECT_EQ(metric_name(nan.first_divergence->metric), "nonfinite");
  const Comparison other = compare(ref, with_top("10", -9));
  ASSERT_FALSE(other.pass);
  EXPECT_DOUBLE_EQ(other.first_divergence->value, 18.0 / 30);
}

TEST_F(NoExcuseTest, ExtraInfinityIsTheArgmax) {
  std::vector<float> longer = waves(200);
  const std::string ref = line("logits", 0, longer);
  longer.resize(202, -INFINITY);
  EXPECT_TRUE(compare(ref, line("logits", 0, longer)).pass) << "padding";
  longer.push_back(INFINITY);
  EXPECT_FALSE(compare(ref, line("logits", 0, longer)).pass);
}

// Breaks if a sketch that the padding's infinities spoil made a right engine fail.
TEST_F(NoExcuseTest, CommonInfinitiesKeepTheSketchUsable) {
  std::vector<float> logits = waves(1000);
  std::fill(logits.end() - 8, logits.end(), -INFINITY);
  const auto log = [&](float first) {
    logits[500] = first;
    const Sketch sketch = compute_sketch(logits);
    const Summary summary = summarize(logits);
    std::string numbers;
    for (const double number : sketch)
      append_json_number(numbers += numbers.empty() ? "" : ",", number);
    return line(
        "logits", 0, {logits.begin(), logits.begin() + 10},
        fmt::format(R"(,"n":1000,"sketch":[{}],"summary":{{"l2":{},"nonfinite":8,"nan":0}})",
                    numbers, summary.l2));
  };
  EXPECT_TRUE(compare(log(1), log(1)).pass);
  EXPECT_FALSE(compare(log(1), log(50)).pass);
  const std::string right = log(1);
  std::reverse(logits.begin() + 100, logits.begin() + 900);
  EXPECT_FALSE(compare(right, log(1)).pass) << "which no norm tells";
}

// Breaks if the margin of a tie were taken from a head, of which the logits' scale is not known.
TEST_F(NoExcuseTest, TieUsesTheScaleOfAllLogits) {
  const auto log = [&](const std::vector<float>& head, double first, double second) {
    std::vector<std::pair<double, int>> top = {{first, 100}, {second, 200}};
    std::ranges::sort(top, std::greater());
    return line(
        "logits", 0, head,
        fmt::format(R"(,"n":1000,"summary":{{"l2":60,"argmax":{},"top":[[{},{}],[{},{}]]}})",
                    top[0].second, top[0].second, top[0].first, top[1].second, top[1].first));
  };
  for (const std::vector<float>& head : {std::vector<float>{}, {0.001F}, waves(10)}) {
    EXPECT_EQ(compare(log(head, 10, 9.9999), log(head, 9.9995, 10)).verdict, Verdict::kTieFlip);
    EXPECT_EQ(compare(log(head, 10, 8), log(head, 9.5, 9.6)).verdict, Verdict::kDrift);
  }
}

// Breaks if logits that choose nothing passed beside layers that are right.
TEST_F(NoExcuseTest, LogitsThatAreAllZeroProveNothing) {
  const std::string layer = line("layer_0_output", 0, waves(10));
  const std::string zeros = layer + line("logits", 0, std::vector<float>(10, 0));
  const Comparison comparison = compare(zeros, zeros);
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
  EXPECT_FALSE(comparison.pass);
  EXPECT_EQ(comparison.evidence.unproven, 1);
}

// Breaks if what all values show were held to less than a head is.
TEST_F(NoExcuseTest, StatementsAboutAllValuesAreHeldToTheTolerance) {
  const std::vector<float> values = waves(1000);
  const auto log = [&](double factor) {
    return line("layer_0_output", 0, values,
                fmt::format(R"(,"summary":{{"l2":{}}})", factor * summarize(values).l2));
  };
  options_.policy = Policy::from_file(put("policy.json", R"({"default":{"rel_l2":1e-3}})"));
  EXPECT_TRUE(compare(log(1), log(1.0005)).pass);
  EXPECT_FALSE(compare(log(1), log(1.005)).pass);
}

TEST_F(NoExcuseTest, OneSidedNormProvesNothingOfZeros) {
  const std::vector<float> zeros(10, 0);
  const std::string ref = line("q", 0, zeros, ",\"n\":1000");
  const std::string got = line("q", 0, zeros, R"(,"n":1000,"summary":{"l2":30})");
  EXPECT_EQ(compare(ref, got).verdict, Verdict::kInconclusive);
  EXPECT_EQ(compare(got, got).verdict, Verdict::kMatch);
}

TEST_F(NoExcuseTest, SplitRequiresAKnownPromptEnd) {
  const auto log = [&](bool embedding, float a, float b, int seed) {
    std::string text;
    for (int token = 0; token < 8; ++token) {
      std::vector<float> logits = waves(64, token < 3 ? token : token * seed);
      if (token == 2) {
        logits[5] = a;
        logits[6] = b;
      }
      if (embedding) text += line("embedding", token, waves(64, token < 3 ? token : token * seed));
      text += line("logits", token, logits);
    }
    return text;
  };
  const Comparison untold = compare(log(false, 10, 9.9999F, 1), log(false, 10, 10.0001F, 2));
  EXPECT_FALSE(untold.pass);
  EXPECT_THAT(untold.warnings,
              ElementsAre(HasSubstr("the logits choose another token before token 3")));
  const Comparison parted = compare(log(true, 10, 9.9999F, 1), log(true, 10, 10.0001F, 2));
  EXPECT_EQ(parted.verdict, Verdict::kTieFlip);
  EXPECT_EQ(parted.split->token_idx, 3);
}

// Breaks if two logs whose headers tell where the prompt ends did not under a given offset.
TEST_F(NoExcuseTest, GivenOffsetKeepsThePromptEnd) {
  const auto log = [&](const char* tokens, int first, float second, int seed) {
    std::string text = fmt::format(R"({{"assay":1,"model":{{"name":"m"}},"tokens":{}}})", tokens);
    text += "\n";
    for (int token = 0; token < 8; ++token) {
      std::vector<float> logits = waves(64, token < 3 ? token : token * seed);
      if (token == 2) {
        logits[5] = 10;
        logits[6] = second;
      }
      text += line("logits", token + first, logits);
    }
    return text;
  };
  const std::string ref = log("[5,6,7]", 0, 9.9999F, 1);
  options_.align = AlignMode::kFixed;
  EXPECT_EQ(compare(ref, log("[5,6,7]", 0, 10.0001F, 2)).verdict, Verdict::kTieFlip);
  EXPECT_FALSE(compare(ref, log("[5,6,7,8,9,9]", 0, 9.5F, 2)).pass);
  // The same positions, counted from 1, of which the last of the prompt is wrong.
  const std::string long_ref = log("[5,6,7,8]", 0, 9.9999F, 1);
  options_.offset = 1;
  EXPECT_FALSE(compare(long_ref, log("[5,6,7,8]", 1, 10.0001F, 2)).pass);
  const Comparison shifted = compare(ref, log("[1,5,6,7]", 1, 10.0001F, 2));
  ASSERT_TRUE(shifted.split);
  EXPECT_EQ(shifted.split->token_idx, 3);
}

// Breaks if two records of eight that happen to match made an offset, and what it drops went
// untold.
TEST_F(NoExcuseTest, OffsetMustExplainHalfOfTheTokens) {
  const auto log = [&](int first, int same) {
    std::string text;
    for (int token = 0; token < 8; ++token) {
      text += line("logits", token, waves(64, token < same ? first + token : 100 + token));
    }
    return text;
  };
  const Comparison two = compare(log(0, 8), log(6, 2));
  EXPECT_FALSE(two.pass);
  EXPECT_EQ(two.alignment.offset, 0);
  const Comparison six = compare(log(0, 8), log(2, 6));
  EXPECT_EQ(six.alignment.offset, -2);
  // Of a log that begins in the middle all is in common, though little of it is sampled.
  const auto part = [&](int first, int shift) {
    std::string text;
    for (int token = first; token < 16; ++token) {
      text += line("logits", token + shift, waves(64, token));
    }
    return text;
  };
  EXPECT_EQ(compare(part(0, 0), part(9, 1)).alignment.offset, 1);
  EXPECT_EQ(std::ssize(six.gaps), 2) << "tokens that the offset leaves out";
  EXPECT_EQ(six.evidence.unproven, 8) << "it leaves out the other's last two as well";
}

TEST_F(NoExcuseTest, OtherLimitsDoNotScaleGrowth) {
  const auto log = [&](float error) {
    std::vector<float> values = waves(64, 1);
    for (float& value : values) value *= 1 + error;
    return line("layer_0_output", 0, waves(64)) + line("layer_1_output", 0, values);
  };
  options_.policy = Policy::from_file(put("abs.json", R"({"default":{"max_abs":0.3}})"));
  EXPECT_EQ(compare(log(0), log(0.45F)).verdict, Verdict::kWrong);
}

}  // namespace
}  // namespace assay
