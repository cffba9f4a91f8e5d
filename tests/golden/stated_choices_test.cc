#include "assay/golden/stated_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace assay {
namespace {

using testing::HasSubstr;

Record logits(int64_t token_idx, std::vector<float> values) {
  Record record;
  record.checkpoint = "logits";
  record.token_idx = token_idx;
  record.n = std::ssize(values);
  record.values = std::move(values);
  return record;
}

// Of a wider tensor, known by its summary alone.
Record summary(int64_t token_idx, int64_t argmax, std::vector<TopValue> top) {
  Record record = logits(token_idx, {0, 0});
  record.n = 100;
  record.summary.emplace();
  record.summary->argmax = argmax;
  record.summary->top = std::move(top);
  return record;
}

GoldenLog stating(std::vector<int32_t> greedy, std::optional<double> gap = {}) {
  GoldenLog log;
  log.file = "f32.jsonl";
  log.n_predict = std::ssize(greedy);
  log.greedy = std::move(greedy);
  log.argmax_min_gap = gap;
  return log;
}

// What is wrong with two tokens of a prompt and one more.
std::string problem(const GoldenLog& log, const std::vector<Record>& records,
                    const std::vector<int32_t>& padding = {}) {
  StatedChoices choices(log, 2, padding);
  for (const Record& record : records) {
    const std::string text = choices.take(record);
    if (!text.empty()) return text;
  }
  return choices.check_smallest();
}

// Breaks if greedy tokens of a manifest were not what the log's logits choose.
TEST(StatedChoices, GreedyIsWhatTheLogitsChoose) {
  EXPECT_EQ(problem(stating({1}), {logits(0, {9, 1, 1}), logits(1, {1, 2, 1})}), "");
  EXPECT_EQ(problem(stating({2}), {logits(1, {1, 2, 1})}),
            "chooses 1 at 1, and the manifest states 2 in logs[f32.jsonl].greedy[0]");
  EXPECT_EQ(problem(stating({2}), {summary(1, 40, {{40, 5}, {2, 4}})}),
            "chooses 40 at 1, and the manifest states 2 in logs[f32.jsonl].greedy[0]");
  EXPECT_THAT(problem(stating({2}), {summary(1, 40, {})}), HasSubstr("chooses 40"));
  EXPECT_THAT(problem(stating({7000}), {logits(1, {1, 2})}), HasSubstr("chooses 1"));
  // Level in 32 bits.
  EXPECT_EQ(problem(stating({2}), {logits(1, {1, 2, 2})}), "");
  EXPECT_EQ(problem(stating({2}), {summary(1, 40, {{40, 5}, {2, 5}})}), "");
  // Nothing tells.
  EXPECT_EQ(problem(stating({2}), {logits(0, {1, 2, 1})}), "");
  EXPECT_EQ(problem(stating({2}), {summary(1, -1, {})}), "");
}

TEST(StatedChoices, PaddingIsNotChosen) {
  const std::vector<int32_t> padding = {1, 40, 41};
  EXPECT_EQ(problem(stating({2}), {logits(1, {1, 9, 2})}, padding), "");
  EXPECT_THAT(problem(stating({1}), {logits(1, {1, 9, 2})}, padding), HasSubstr("chooses 2"));
  EXPECT_THAT(problem(stating({1}), {logits(1, {9, 9, 2})}, padding), HasSubstr("chooses 0"));
  EXPECT_EQ(problem(stating({2}), {summary(1, 40, {{40, 5}, {2, 4}})}, padding), "");
  EXPECT_THAT(problem(stating({3}), {summary(1, 40, {{40, 5}, {2, 4}})}, padding),
              HasSubstr("chooses 2"));
  EXPECT_EQ(problem(stating({3}), {summary(1, 40, {{40, 5}, {41, 4}})}, padding), "")
      << "the five largest are all padding";
  EXPECT_EQ(problem(stating({40}), {summary(1, 40, {{40, 5}, {41, 4}})}, padding),
            "chooses no padding, and the manifest states 40 in logs[f32.jsonl].greedy[0], which is "
            "one of its padding_ids");
}

// Breaks if a choice of the oracle's were called clearer, or less clear, than the log shows it.
TEST(StatedChoices, EachGapIsThatOfItsStep) {
  GoldenLog log = stating({1, 3});
  log.greedy_gaps = {2.0, 0.5};
  const std::vector<Record> records = {logits(0, {9, 1, 1}), logits(1, {1, 4, 2}),
                                       summary(2, 3, {{3, 5}, {8, 4.5F}})};
  EXPECT_EQ(problem(log, records), "");
  EXPECT_EQ(problem(log, {summary(2, 40, {{40, 6}, {3, 5}, {41, 4.9F}, {8, 4.5F}})}, {40, 41}), "")
      << "padding is no runner-up";
  EXPECT_EQ(problem(log, {summary(2, 3, {{3, 5}})}), "") << "nothing tells";
  log.greedy_gaps = {2.01, 0.5};
  EXPECT_EQ(problem(log, records), "") << "three digits";
  log.greedy_gaps = {2.0, 0.51};
  EXPECT_EQ(problem(log, records),
            "has 0.5 between the largest two logits at 2, and the manifest states 0.51 in "
            "logs[f32.jsonl].greedy_gaps[1]");
  log.greedy_gaps = {2.2, 0.5};
  EXPECT_THAT(problem(log, records), HasSubstr("greedy_gaps[0]"));
}

// Breaks if a choice were called clearer than it is.
TEST(StatedChoices, TheSmallestGapIsThatOfTheLog) {
  const std::vector<Record> records = {logits(0, {1, 4, 2}), summary(1, 3, {{3, 5}, {8, 4.5F}})};
  EXPECT_EQ(problem(stating({}, 0.5), records), "");
  EXPECT_EQ(problem(stating({}, 0.502), records), "") << "three digits";
  EXPECT_EQ(problem(stating({}, 0.51), records),
            "has logits whose largest two are as near as 0.5, and the manifest states 0.51 in "
            "logs[f32.jsonl].argmax_min_gap");
  EXPECT_NE(problem(stating({}, 0.0), records), "");
  EXPECT_NE(problem(stating({}, 2.0), records), "");
  // A record that does not list its second may have a smaller one, and no larger.
  const std::vector<Record> unknown = {logits(0, {1, 4, 2}), summary(1, 3, {{3, 5}})};
  EXPECT_EQ(problem(stating({}, 0.5), unknown), "");
  EXPECT_NE(problem(stating({}, 3.0), unknown), "");
  EXPECT_EQ(problem(stating({}, 0.5), {summary(1, 3, {})}), "");
  EXPECT_EQ(problem(stating({}), records), "");
}

// Breaks if the choices were called clearer, beside the size of the logits, than they are.
TEST(StatedChoices, TheSmallestMarginIsThatOfTheLog) {
  Record summed = summary(2, 3, {{3, 5}, {8, 4.5F}});
  summed.summary->l2 = 50;
  const std::vector<Record> records = {logits(1, {0, 4, 3}), summed};  // 0.2 and 0.01
  const auto with_margin = [&](double margin, std::vector<int32_t> greedy = {}) {
    GoldenLog log = stating(std::move(greedy));
    log.argmax_margin = margin;
    return log;
  };
  EXPECT_EQ(problem(with_margin(0.01), records), "");
  EXPECT_EQ(problem(with_margin(0.01005), records), "") << "three digits";
  EXPECT_EQ(problem(with_margin(0.0102), records),
            "has logits whose largest two are as near as 0.01 of their norm, and the manifest "
            "states 0.0102 in logs[f32.jsonl].argmax_margin");
  EXPECT_NE(problem(with_margin(0.005), records), "");
  // A chosen token's margin is that over the runner-up that is no padding.
  EXPECT_EQ(problem(with_margin(0.01, {1, 3}), records, {2}), "");
  EXPECT_EQ(problem(with_margin(0.005, {1, 3, 1}), records), "") << "the third is not in the log";
  EXPECT_NE(problem(with_margin(0.02, {1, 3, 1}), records), "");
  EXPECT_NE(problem(with_margin(std::numeric_limits<double>::quiet_NaN()), records), "");
}

TEST(StatedChoices, NaNFails) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(problem(stating({}, 0.5), {summary(1, 3, {{3, kNone}, {8, 4.5F}})}), "");
  EXPECT_NE(problem(stating({8}), {summary(1, 3, {{3, kNone}, {8, 4.5F}})}), "");
  GoldenLog log = stating({3});
  log.greedy_gaps = {0.5};
  EXPECT_NE(problem(log, {summary(1, 3, {{3, kNone}, {8, 4.5F}})}), "");
}

}  // namespace
}  // namespace assay
