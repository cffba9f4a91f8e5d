#include "assay/perf/model_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace assay {
namespace {

using testing::HasSubstr;

const ModelKey kFast = {"smollm2", "Q4_1", "fast"};

Accuracy accuracy(double x_floor) {
  return {.x_floor = x_floor,
          .allowed = 1.27,
          .pass = x_floor <= 1.27,
          .place = "logits at token 3 of haiku"};
}

PerfResult speed(const std::string& name, PerfVerdict verdict, double ratio) {
  PerfResult result;
  result.name = name;
  result.verdict = verdict;
  result.ratio = ratio;
  return result;
}

PerfComparison faster_decode() {
  PerfComparison comparison;
  comparison.verdict = PerfVerdict::kFast;
  comparison.results = {speed("decode/smollm2/Q4_1/fast/16/real_time", PerfVerdict::kFast, 0.8),
                        speed("decode/smollm2/Q4_1/fast/512/real_time", PerfVerdict::kFast, 0.9),
                        speed("prefill/smollm2/Q4_1/fast/512/real_time", PerfVerdict::kSame, 1.001),
                        speed("matrix_vector/Q4_K/fast/real_time", PerfVerdict::kFast, 0.5),
                        speed("decode/smollm2", PerfVerdict::kSame, 1)};
  return comparison;
}

// The one thing that this is for.
TEST(ModelVerdict, FasterAndBeyondItsFloorIsRefused) {
  const SpeedAndAccuracy judged{
      faster_decode(),
      judge_models(faster_decode(), {{kFast, accuracy(0.8)}}, {{kFast, accuracy(4.2)}})};
  ASSERT_EQ(judged.models.size(), 1U);
  EXPECT_TRUE(judged.models[0].refused);
  EXPECT_EQ(judged.models[0].reason,
            "it breaks its floor: 4.2 times as far from its golden as the floor at logits at token "
            "3 of haiku, where 1.27 are allowed (base: 0.8); that it is faster (decode -10.0 %) "
            "does not count");
  EXPECT_FALSE(judged.pass());
  EXPECT_EQ(judged.name(), "REFUSED");
}

TEST(ModelVerdict, FasterWithinItsFloorPasses) {
  const SpeedAndAccuracy judged{
      faster_decode(),
      judge_models(faster_decode(), {{kFast, accuracy(0.8)}}, {{kFast, accuracy(1.2)}})};
  ASSERT_EQ(judged.models.size(), 1U);
  EXPECT_FALSE(judged.models[0].refused);
  EXPECT_EQ(judged.models[0].decode->name, "decode/smollm2/Q4_1/fast/512/real_time");
  EXPECT_EQ(judged.models[0].prefill->ratio, 1.001);
  EXPECT_TRUE(judged.pass());
  EXPECT_EQ(judged.name(), "FAST");
}

TEST(ModelVerdict, WhatIsNotFiniteOrNoLongerHeldIsRefused) {
  const auto refused = [](const std::map<ModelKey, Accuracy>& base,
                          const std::map<ModelKey, Accuracy>& head) {
    return judge_models(faster_decode(), base, head)[0];
  };
  const ModelVerdict infinite = refused({{kFast, accuracy(1)}}, {{kFast, accuracy(INFINITY)}});
  EXPECT_TRUE(infinite.refused);
  EXPECT_THAT(infinite.reason, HasSubstr("infinitely many times as far"));
  const ModelVerdict gone = refused({{kFast, accuracy(1)}}, {});
  EXPECT_TRUE(gone.refused);
  EXPECT_THAT(gone.reason, HasSubstr("not in the head"));
  const ModelVerdict still = refused({{kFast, accuracy(5)}}, {{kFast, accuracy(5)}});
  EXPECT_TRUE(still.refused);
  EXPECT_THAT(still.reason, HasSubstr("is still beyond its floor"));
  Accuracy tokens = accuracy(0.5);
  tokens.pass = false;
  EXPECT_THAT(refused({{kFast, accuracy(0.5)}}, {{kFast, tokens}}).reason,
              HasSubstr("it parts from its golden in its tokens"));
  const ModelVerdict fresh = refused({}, {{kFast, accuracy(5)}});
  EXPECT_TRUE(fresh.refused);
}

// What would break: a prompt whose log the head no longer makes, hidden behind those that pass.
TEST(ModelVerdict, APromptThatIsNoLongerHeldIsRefused) {
  Accuracy both = accuracy(1);
  both.prompts = {{"haiku", {}}, {"long", {}}};
  Accuracy one = accuracy(1);
  one.prompts = {{"haiku", {}}};
  const ModelVerdict lost = judge_models(faster_decode(), {{kFast, both}}, {{kFast, one}})[0];
  EXPECT_TRUE(lost.refused);
  EXPECT_EQ(lost.reason,
            "it was held to its golden of the prompt long in the base and not in the head");
  EXPECT_FALSE(judge_models(faster_decode(), {{kFast, one}}, {{kFast, both}})[0].refused);
}

// What would break: a head that no longer logs most of what the base logged, and passes with the
// rest.
TEST(ModelVerdict, RecordsThatAreNoLongerHeldAreRefused) {
  const auto missing = [](int64_t count) {
    Accuracy held = accuracy(1);
    held.prompts = {{"haiku", {}}, {"long", {.missing = count}}};
    return held;
  };
  const auto judged = [&](const std::map<ModelKey, Accuracy>& base, int64_t count) {
    return judge_models(faster_decode(), base, {{kFast, missing(count)}})[0];
  };
  const ModelVerdict lost = judged({{kFast, missing(2)}}, 125);
  EXPECT_TRUE(lost.refused);
  EXPECT_EQ(lost.reason,
            "the head's log lacks 125 records of its golden of the prompt long, the base's 2");
  EXPECT_FALSE(judged({{kFast, missing(2)}}, 2).refused);
  // A golden may hold what no engine logs, such as later positions; without a base none is gone.
  EXPECT_FALSE(judged({}, 125).refused);
}

// What would break: a head that is compared in fewer places, or by wider floors, than the base, and
// passes by that.
TEST(ModelVerdict, WhatIsJudgedUnlikeTheBaseIsRefused) {
  using Records = std::map<std::string, std::map<int64_t, HeldRecord>>;
  const HeldRecord record = {.floor = 1e-6, .tolerance = 3e-6, .count = 1};
  const Records all = {{"embedding", {{0, record}, {1, record}}},
                       {"logits", {{0, record}, {1, record}}}};
  const auto reason = [&](const Records& base, const Records& head) {
    Accuracy sides[] = {accuracy(1), accuracy(0.5)};
    sides[0].prompts = {{"haiku", {.records = base}}};
    sides[1].prompts = {{"haiku", {.records = head}}};
    const ModelVerdict verdict =
        judge_models(faster_decode(), {{kFast, sides[0]}}, {{kFast, sides[1]}})[0];
    EXPECT_EQ(verdict.refused, !verdict.reason.empty());
    return verdict.reason;
  };
  EXPECT_EQ(reason(all, all), "");
  EXPECT_EQ(reason({}, all), "");
  EXPECT_EQ(reason(all, {{"embedding", all.at("embedding")}}),
            "of 2 records of logits that are compared with its golden of the prompt haiku in the "
            "base, 0 are compared in the head");
  const auto logits_at = [&](const std::map<int64_t, HeldRecord>& logits) {
    Records records = all;
    records["logits"] = logits;
    return records;
  };
  const std::string one =
      "of 2 records of logits that are compared with its golden of the prompt "
      "haiku in the base, 1 is compared in the head";
  EXPECT_EQ(reason(all, logits_at({{1, record}})), one);
  EXPECT_EQ(reason(all, logits_at({{1, record}, {2, record}})), one);
  HeldRecord twice = record;
  twice.count = 2;
  EXPECT_EQ(reason(logits_at({{1, twice}}), logits_at({{1, record}})), one);
  EXPECT_EQ(reason(logits_at({{1, record}}), all), "");
  const auto held_to = [&](std::optional<double> floor, double tolerance) {
    return logits_at({{0, record}, {1, {.floor = floor, .tolerance = tolerance, .count = 1}}});
  };
  EXPECT_EQ(reason(all, held_to(1e-3, 3e-3)),
            "its floor at logits of the prompt haiku is 1e-06 in the base and 0.001 in the head: "
            "both are to be held to the same");
  EXPECT_EQ(reason(all, held_to(1e-6, 9e-6)),
            "its tolerance at logits of the prompt haiku is 3e-06 in the base and 9e-06 in the "
            "head: both are to be held to the same");
  EXPECT_THAT(reason(all, held_to(std::nullopt, 3e-6)),
              HasSubstr("is 1e-06 in the base and not stated in the head"));
  EXPECT_THAT(reason(held_to(std::nullopt, 3e-6), all),
              HasSubstr("is not stated in the base and 1e-06 in the head"));
  EXPECT_EQ(reason(all, held_to(1e-6 * (1 + 1e-9), 3e-6)), "") << "a number written as text";
  EXPECT_NE(reason(all, held_to(NAN, 3e-6)), "");
}

TEST(ModelVerdict, WithoutGoldensNothingIsRefused) {
  const auto models = judge_models(faster_decode(), {}, {});
  ASSERT_EQ(models.size(), 1U);
  EXPECT_FALSE(models[0].refused);
}

}  // namespace
}  // namespace assay
