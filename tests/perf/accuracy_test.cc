#include "assay/perf/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

class AccuracyTest : public LogFiles {
 protected:
  // As `assay compare --format json` writes it; `x_floor` as JSON.
  void put_comparison(const std::string& name, const std::string& pass, const std::string& x_floor,
                      const std::string& checkpoint = "logits", int64_t missing = 0) {
    put(name, R"({"verdict":"noise","pass":)" + pass +
                  R"(,"summary":{"failed":0,"unmatched_ref":)" + std::to_string(missing) +
                  R"(},"results":[{"checkpoint":"embedding","token_idx":0,"tolerance":3e-6,)"
                  R"("floor":1e-6,"x_floor":0.1},{"checkpoint":")" +
                  checkpoint + R"(","token_idx":7,"tolerance":6e-6,"floor":2e-6,"x_floor":)" +
                  x_floor + "}]}");
  }
  std::string error(const std::string& name, const std::string& text) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    put(name, text);
    return error_of([&] { read_accuracy(folder_); });
  }
};

TEST_F(AccuracyTest, TakesTheWorstOfAllPromptsOfAModel) {
  put_comparison("qwen2.5-x-Q4_K_M-exact-haiku.json", "true", "1.5");
  put_comparison("qwen2.5-x-Q4_K_M-exact-long.json", "true", "2.5", "layer_1_output", 125);
  put_comparison("qwen2.5-x-F16-exact-haiku.json", "true", "0.5");
  put("notes.txt", "no comparison");
  const auto all = read_accuracy(folder_);
  ASSERT_EQ(all.size(), 2U);
  const Accuracy& worst = all.at({"qwen2.5-x", "Q4_K_M", "exact"});
  EXPECT_EQ(worst.x_floor, 2.5);
  EXPECT_DOUBLE_EQ(worst.allowed, 3);
  EXPECT_TRUE(worst.pass);
  EXPECT_EQ(worst.place, "layer_1_output at token 7 of long");
  ASSERT_EQ(worst.prompts.size(), 2U);
  EXPECT_EQ(worst.prompts.at("haiku").missing, 0);
  EXPECT_EQ(worst.prompts.at("long").missing, 125);
  EXPECT_THAT(worst.prompts.at("haiku").records,
              testing::ElementsAre(testing::Key("embedding"), testing::Key("logits")));
  const HeldRecord& record = worst.prompts.at("long").records.at("layer_1_output").at(7);
  EXPECT_EQ(record.floor, 2e-6);
  EXPECT_EQ(record.tolerance, 6e-6);
  EXPECT_EQ(record.count, 1);
}

// What would break: a record that an engine alone logged, and that failed by itself, asked of the
// next one; or one without a floor that drops out unseen.
TEST_F(AccuracyTest, KeepsWhatEachRecordWasHeldTo) {
  put("a-F32-exact-one.json",
      R"({"pass":false,"summary":{"unmatched_ref":0},"results":[)"
      R"({"checkpoint":"logits","token_idx":1,"tolerance":6e-6,"floor":2e-6,"x_floor":0.5},)"
      R"({"checkpoint":"logits","token_idx":1,"tolerance":6e-6,"floor":2e-6,"x_floor":0.5},)"
      R"({"checkpoint":"logits","token_idx":2,"tolerance":6e-6,"floor":2e-6,"x_floor":9,)"
      R"("status":"wrong"},)"
      R"({"sequence":"b","checkpoint":"logits","token_idx":1,"tolerance":6e-6,"floor":2e-6,)"
      R"("x_floor":0.5},)"
      R"({"checkpoint":"layer_0_output","token_idx":1,"tolerance":1e-3,"status":"noise"},)"
      R"({"checkpoint":"alone","token_idx":1,"tolerance":0,"status":"wrong"}]})");
  const auto all = read_accuracy(folder_);
  const auto& records = all.at({"a", "F32", "exact"}).prompts.at("one").records;
  EXPECT_THAT(records, testing::ElementsAre(testing::Key("layer_0_output"), testing::Key("logits"),
                                            testing::Key("logits of the sequence b")));
  EXPECT_EQ(records.at("logits").at(1).count, 2);
  EXPECT_EQ(records.at("logits").size(), 2U);
  EXPECT_EQ(records.at("layer_0_output").at(1).floor, std::nullopt);
}

// What would break: a prompt that fails hidden behind one that passes, in either order.
TEST_F(AccuracyTest, OnePromptThatFailsFailsTheModel) {
  put_comparison("a-F32-exact-one.json", "false", "0.5");
  put_comparison("a-F32-exact-two.json", "true", "2.9");
  put_comparison("b-F32-exact-one.json", "true", "2.9");
  put_comparison("b-F32-exact-two.json", "false", "0.5");
  for (const auto& [key, accuracy] : read_accuracy(folder_)) EXPECT_FALSE(accuracy.pass);
}

// A NaN is written as text, and a comparison that claims to pass is checked.
TEST_F(AccuracyTest, WhatIsNotFiniteOrBeyondItsToleranceFails) {
  put_comparison("a-F32-exact-one.json", "true", "\"NaN\"");
  put_comparison("b-F32-exact-one.json", "true", "3.01");
  const auto all = read_accuracy(folder_);
  EXPECT_TRUE(std::isinf(all.at({"a", "F32", "exact"}).x_floor));
  for (const auto& [key, accuracy] : all) EXPECT_FALSE(accuracy.pass);
}

// A pass that its own figures contradict is refused.
TEST_F(AccuracyTest, APassIsHeldToItsFigures) {
  const std::string name = "a-F32-exact-one.json";
  const auto with = [&](const std::string& head, const std::string& result) {
    return error(name, R"({"pass":true,)" + head +
                           R"(,"results":[{"checkpoint":"logits","token_idx":7,)" + result + "}]}");
  };
  const std::string sums = R"("verdict":"noise","summary":{"failed":0,"unmatched_ref":0})";
  const std::string figures = R"("rel_l2":1e-6,"tolerance":6e-6,"floor":2e-6,"x_floor":0.5)";
  EXPECT_EQ(with(sums, figures + R"(,"status":"tie_flip")"), "no error");
  using testing::HasSubstr;
  EXPECT_THAT(with(sums, figures + R"(,"status":"drift")"), HasSubstr("a result did not pass"));
  for (const char* error : {"1e-5", "null", "\"NaN\""}) {
    EXPECT_THAT(
        with(sums, std::string(R"("tolerance":6e-6,"floor":2e-6,"x_floor":0,"rel_l2":)") + error),
        HasSubstr("is not within its tolerance"));
  }
  for (const char* floors : {R"("tolerance":1,"floor":2e-6)", R"("tolerance":6e-6,"floor":0)"}) {
    EXPECT_THAT(with(sums, std::string(floors) + R"(,"x_floor":9)"),
                HasSubstr("times that at most"));
  }
  for (const char* verdict : {"wrong", "drift", "inconclusive", "incomplete"}) {
    EXPECT_THAT(with(std::string(R"("verdict":")") + verdict + R"(","summary":{"unmatched_ref":0})",
                     figures),
                HasSubstr("but its verdict is another"));
  }
  const std::string verdict = R"("verdict":"noise",)";
  EXPECT_THAT(with(verdict + R"("summary":{"failed":1,"unmatched_ref":0})", figures),
              HasSubstr("but records failed"));
  EXPECT_THAT(with(verdict + R"("summary":{"compared":2,"unmatched_ref":0})", figures),
              HasSubstr("but results are missing"));
  EXPECT_THAT(with(sums + R"(,"evidence":{"unproven":1})", figures), HasSubstr("are unproven"));
  EXPECT_THAT(with(sums + R"(,"first_divergence":{})", figures), HasSubstr("a first divergence"));
  for (const char* evidence : {"unproven", "failed"}) {
    EXPECT_THAT(with(sums, figures + R"(,"evidence":")" + evidence + "\""),
                HasSubstr("a result is unproven or failed"));
  }
  EXPECT_EQ(with(sums + R"(,"gaps":[{"evidence":"excused"}])", figures), "no error");
  EXPECT_THAT(with(sums + R"(,"gaps":[{"evidence":"unproven"}])", figures),
              HasSubstr("'gaps' has a record that is unproven"));
}

// Rounded activations flip near ties; what else fails beside them is a failure.
TEST_F(AccuracyTest, FastMayFlipTokensWithinItsFloorAndNothingElse) {
  const auto put_flip = [&](const std::string& name, const std::string& failed,
                            const std::string& status, const std::string& x_floor) {
    put(name, R"({"verdict":"drift","pass":false,"summary":{"failed":)" + failed +
                  R"(,"unmatched_ref":0},"results":[{"checkpoint":"logits","token_idx":7,)"
                  R"("tolerance":6e-6,"floor":2e-6,"argmax_ref":3,"argmax_got":4,"status":")" +
                  status + R"(","x_floor":)" + x_floor + "}]}");
  };
  put_flip("a-Q4_0-fast-one.json", "1", "drift", "0.6");
  put_flip("b-Q4_0-exact-one.json", "1", "drift", "0.6");
  put_flip("c-Q4_0-fast-one.json", "2", "drift", "0.6");
  put_flip("d-Q4_0-fast-one.json", "1", "garbage", "0.6");
  put_flip("e-Q4_0-fast-one.json", "1", "drift", "1.3");
  put_flip("f-Q4_0-fast-one.json", "1", "drift", R"(0.6},{"status":"wrong")");
  put_flip("g-Q4_0-fast-one.json", "1", "drift", R"(0.6,"rel_l2":1)");
  for (const auto& [key, accuracy] : read_accuracy(folder_)) {
    EXPECT_EQ(accuracy.pass, key.model == "a") << key.model;
  }
}

// fast may be as far off as llama.cpp is, not three times as far.
TEST_F(AccuracyTest, FastIsAllowedNoMoreThanLlamaCpp) {
  put_comparison("a-Q4_0-fast-one.json", "true", "1.2");
  put_comparison("b-Q4_0-fast-one.json", "true", "1.3");
  const auto all = read_accuracy(folder_);
  EXPECT_TRUE(all.at({"a", "Q4_0", "fast"}).pass);
  EXPECT_FALSE(all.at({"b", "Q4_0", "fast"}).pass);
}

TEST_F(AccuracyTest, RefusesWhatIsNoComparison) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of([&] { read_accuracy(folder_); }), HasSubstr("holds no comparison"));
  EXPECT_THAT(error_of([&] { read_accuracy(folder_ + "/none"); }), HasSubstr("cannot read"));
  EXPECT_THAT(error("a.json", "{}"), HasSubstr("a.json: its name is not MODEL-TYPE-MATH-PROMPT"));
  EXPECT_THAT(error("-F32-exact-a.json", "{}"), HasSubstr("its name is not"));
  const std::string name = "a-F32-exact-one.json";
  EXPECT_THAT(error(name, ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(name, "[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error(name, R"({"results":[]})"), HasSubstr("'pass' is missing"));
  EXPECT_THAT(error(name, R"({"pass":1,"results":[]})"), HasSubstr("'pass' is missing"));
  EXPECT_THAT(error(name, R"({"pass":true,"results":[]})"), HasSubstr("'summary' is missing"));
  EXPECT_THAT(error(name, R"({"pass":true,"summary":{}})"),
              HasSubstr("'unmatched_ref' is missing"));
  const std::string pass = R"({"pass":true,"summary":{"unmatched_ref":0})";
  EXPECT_THAT(error(name, pass + "}"), HasSubstr("'results' is missing"));
  EXPECT_THAT(error(name, pass + R"(,"results":[]})"), HasSubstr("no result says"));
  EXPECT_THAT(error(name, pass + R"(,"results":[3]})"), HasSubstr("is not an object"));
  EXPECT_THAT(error(name, pass + R"(,"results":[{"x_floor":-1}]})"),
              HasSubstr("not a multiple of a floor"));
  EXPECT_THAT(error(name, pass + R"(,"results":[{"x_floor":1,"floor":"a"}]})"),
              HasSubstr("'floor' is missing"));
  EXPECT_THAT(error(name, std::string(100000, '[')), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace assay
