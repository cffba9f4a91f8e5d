// What would break: the one comparer of a fleet. A pair that is lost or judged twice, a bad log
// that keeps the others from being judged, a row that depends on how many are judged at a time.

#include "assay/fleet/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>
#include <filesystem>

#include "assay/log/sketch.h"
#include "base/json_file.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::HasSubstr;

class JudgeTest : public LogFiles {
 protected:
  // A log of two layers at two tokens, the second layer multiplied by `scale`.
  std::string log(const std::string& name, float scale) {
    std::string text;
    for (int64_t token = 0; token < 2; ++token) {
      text += line("layer_0_output", token, {1, 2, 3, 4});
      text += line("layer_1_output", token, {5 * scale, 6 * scale, 7 * scale, 8 * scale});
    }
    return put(name, text);
  }

  static std::string rows_of(const std::vector<LogPair>& pairs, int n_threads = 1) {
    CompareOptions options;
    options.n_threads = n_threads;
    std::string rows;
    judge_pairs(
        pairs, options, [](const std::string&, const std::string&) { return Policy(); },
        [&](std::string_view row) { rows += row; });
    return rows;
  }

  static std::vector<rapidjson::Document> parsed(const std::string& rows) {
    std::vector<rapidjson::Document> all;
    std::istringstream lines(rows);
    for (std::string row; std::getline(lines, row);) {
      all.push_back(parse_json_text(row, "row", ""));
    }
    return all;
  }
};

TEST_F(JudgeTest, ReadsAListOfPairs) {
  const std::vector<LogPair> pairs = parse_log_pairs("a\tb\nc d\te", "list");
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].ref, "a");
  EXPECT_EQ(pairs[0].got, "b");
  EXPECT_EQ(pairs[1].ref, "c d");
  EXPECT_EQ(pairs[1].got, "e");
  for (const std::string list : {"a\tb\nc\n", "a\tb\n\tc\n", "a\tb\nc\t\n", "a\tb\nc\td\te\n"}) {
    EXPECT_THAT(error_of([&] { parse_log_pairs(list, "list"); }), HasSubstr("list:2: is no pair"));
  }
  EXPECT_THAT(error_of([] { parse_log_pairs("", "list"); }), HasSubstr("holds no pair"));
}

TEST_F(JudgeTest, ARowSaysWhereAPairDiverges) {
  const std::string ref = log("ref.jsonl", 1);
  const auto rows = parsed(rows_of({{ref, log("same.jsonl", 1)}, {ref, log("off.jsonl", 1.5F)}}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_STREQ(rows[0]["verdict"].GetString(), "match");
  EXPECT_TRUE(rows[0]["pass"].GetBool());
  EXPECT_EQ(rows[0]["whole"].GetInt(), 4);
  EXPECT_TRUE(rows[0]["differ"].GetArray().Empty());
  EXPECT_FALSE(rows[0].HasMember("checkpoint"));
  EXPECT_STREQ(rows[1]["verdict"].GetString(), "wrong");
  EXPECT_FALSE(rows[1]["pass"].GetBool());
  EXPECT_EQ(rows[1]["failed"].GetInt(), 2);
  EXPECT_STREQ(rows[1]["checkpoint"].GetString(), "layer_1_output");
  EXPECT_STREQ(rows[1]["op"].GetString(), "output");
  EXPECT_EQ(rows[1]["layer"].GetInt(), 1);
  EXPECT_EQ(rows[1]["token_idx"].GetInt(), 0);
  EXPECT_NEAR(rows[1]["last_rel_l2"].GetDouble(), 0.5, 1e-6);
  const auto& differ = rows[1]["differ"];
  ASSERT_EQ(differ.Size(), 2U);
  EXPECT_STREQ(differ[1][0].GetString(), "layer_1_output");
  EXPECT_EQ(differ[1][1].GetInt(), 1);
  EXPECT_EQ(differ[1][2].GetInt(), 1);
}

TEST_F(JudgeTest, ARowHasTheWarnings) {
  const auto named = [&](const std::string& name, const std::string& digit) {
    return put(name, "{\"assay\":1,\"model\":{\"name\":\"m\",\"sha256\":\"" +
                         std::string(64, digit[0]) + "\"}}\n" + line("logits", 0, {1, 2}) +
                         "{\"checkpoint\":\"logi");
  };
  const auto rows = parsed(rows_of({{named("a.jsonl", "a"), named("b.jsonl", "b")}}));
  std::vector<std::string> warnings;
  for (const auto& warning : rows[0]["warnings"].GetArray())
    warnings.push_back(warning.GetString());
  EXPECT_THAT(warnings, testing::Contains(HasSubstr("different model files")));
  EXPECT_THAT(warnings, testing::Contains(testing::StartsWith("the reference:3")));
  EXPECT_THAT(warnings, testing::Contains(testing::StartsWith("the run:3")));
}

// A comparison of sketches alone passes whatever the values are: it must be shown once that the
// sketches are theirs.
TEST_F(JudgeTest, ALogIsSoundWhoseRecordsAgreeWithThemselves) {
  const std::vector<float> right = {1, -2, 3, 4, 5, 6, 7, 8};
  const auto sound = [&](std::vector<float> values, int64_t n = 8, const char* name = "logits") {
    Record record;
    record.values = right;
    std::string more = ",\"n\":" + std::to_string(n) + ",\"sketch\":[";
    for (const double sum : compute_sketch(right)) {
      if (more.back() != '[') more += ',';
      append_json_number(more, sum);
    }
    return is_sound(
        put("log.jsonl", line("embedding", 0, {1, 2}) + line(name, 0, values, more + "]")));
  };
  const auto with = [&](size_t index, float value) {
    std::vector<float> values = right;
    values[index] = value;
    return values;
  };
  EXPECT_TRUE(sound(right));
  EXPECT_FALSE(sound(std::vector<float>(8, 1e6F)));
  EXPECT_FALSE(sound(std::vector<float>(8, std::nanf(""))));
  EXPECT_FALSE(sound(with(3, std::nanf(""))));
  EXPECT_FALSE(sound(with(3, INFINITY)));
  EXPECT_FALSE(sound(with(3, 1e6F)));
  EXPECT_FALSE(sound(with(3, 4.0001F)));  // 7e-6 of the norm, which a policy may hold it to
  EXPECT_FALSE(sound({1, -2, std::nanf("")}));
  EXPECT_FALSE(sound({1, -2, 1e6F}));
  EXPECT_TRUE(sound({1, -2, 3}));
  EXPECT_THAT(error_of([&] { is_sound(put("broken.jsonl", "{]\n{}\n")); }),
              HasSubstr("broken.jsonl:1"));
}

TEST_F(JudgeTest, NotANumberIsTheWorstError) {
  const std::string ref = log("ref.jsonl", 1);
  const auto rows = parsed(rows_of({{ref, log("nan.jsonl", std::nanf(""))}}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0]["pass"].GetBool());
  EXPECT_STREQ(rows[0]["last_rel_l2"].GetString(), "NaN");
  EXPECT_STREQ(rows[0]["worst_rel_l2"].GetString(), "NaN");
}

TEST_F(JudgeTest, ABadLogIsToldAndTheRestJudged) {
  const std::string ref = log("ref.jsonl", 1);
  const std::string broken = put("broken.jsonl", line("logits", 0, {1, 2}) + "{\"values\":\n{}\n");
  const auto rows = parsed(rows_of(
      {{ref, broken}, {ref, folder_ + "/none.jsonl"}, {broken, ref}, {ref, log("got.jsonl", 1)}}));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(rows[0]["problem"].GetString(), HasSubstr("broken.jsonl:2"));
  EXPECT_THAT(rows[1]["problem"].GetString(), HasSubstr("none.jsonl"));
  EXPECT_THAT(rows[2]["problem"].GetString(), HasSubstr("broken.jsonl:2"));
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(rows[i].HasMember("pass"));
  EXPECT_TRUE(rows[3]["pass"].GetBool());
}

// Breaks if a list that names one file twice, or a link to the reference, passes whatever was run.
TEST_F(JudgeTest, ALogIsNotHeldToItself) {
  const std::string ref = log("ref.jsonl", 1);
  const std::string link = folder_ + "/link.jsonl";
  std::filesystem::create_symlink(ref, link);
  for (const std::string& got : {ref, link}) {
    const auto rows = parsed(rows_of({{ref, got}}));
    ASSERT_TRUE(rows[0].HasMember("problem")) << got;
    EXPECT_THAT(rows[0]["problem"].GetString(), HasSubstr(got + ": is the same file as " + ref));
  }
}

// The exit code is that of assay compare.
TEST_F(JudgeTest, CountsWhatIsNotInParity) {
  const std::string ref = log("ref.jsonl", 1);
  const auto counts_of = [](const std::vector<LogPair>& pairs) {
    const NotInParity counts = judge_pairs(
        pairs, {}, [](const std::string&, const std::string&) { return Policy(); },
        [](std::string_view) {});
    return std::pair(counts.diverged, counts.not_proved);
  };
  const LogPair same{ref, log("same.jsonl", 1)};
  const LogPair off{ref, log("off.jsonl", 1.5F)};
  const LogPair part{ref, put("part.jsonl", line("layer_0_output", 0, {1, 2, 3, 4}))};
  const LogPair none{ref, folder_ + "/none.jsonl"};
  EXPECT_EQ(counts_of({same, same}), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(counts_of({same, part, none}), std::pair(int64_t{0}, int64_t{2}));
  EXPECT_EQ(counts_of({off, part, same, off}), std::pair(int64_t{2}, int64_t{1}));
}

TEST_F(JudgeTest, RowsAreTheSameHoweverManyAreJudgedAtATime) {
  const std::string ref = log("ref.jsonl", 1);
  std::vector<LogPair> pairs;
  for (int i = 0; i < 20; ++i) {
    const float scale = 1 + static_cast<float>(i) * 1e-3F;
    pairs.push_back({ref, log(std::to_string(i) + ".jsonl", scale)});
  }
  const std::string rows = rows_of(pairs);
  EXPECT_EQ(rows_of(pairs, 4), rows);
  const auto all = parsed(rows);
  ASSERT_EQ(all.size(), pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(all[i]["got"].GetString(), pairs[i].got);
}

}  // namespace
}  // namespace assay
