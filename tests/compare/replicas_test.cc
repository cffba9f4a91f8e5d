// What ranks log that should hold the same: they are held to one another by whatever they state.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/log/record_text.h"
#include "assay/log/sketch.h"
#include "tests/compare/comparison_case.h"
#include "tests/compare/made_records.h"

namespace assay {
namespace {

class ReplicasTest : public ComparisonTest {
 protected:
  static std::string text(const Record& record) {
    std::string text;
    append_record_line(text, record);
    return text;
  }

  // What `tp` logs of a tensor that every rank has whole.
  static std::string copy_of(const std::string& checkpoint, int64_t token,
                             const std::vector<float>& values, int64_t tp) {
    return line(checkpoint, token, values, fmt::format(R"(,"rank":{{"tp":{}}})", tp));
  }

  Comparison compare_run(const std::string& ref, const std::vector<std::string>& ranks) {
    std::filesystem::create_directories(path("run"));
    for (size_t i = 0; i < ranks.size(); ++i) put(fmt::format("run/{}.jsonl", i), ranks[i]);
    return compare_logs(put("ref.jsonl", ref), path("run"), options_);
  }
};

// Breaks if ranks that log no values, or not as much as one another, could differ unseen.
TEST_F(ReplicasTest, ReplicasAreHeldToOneAnotherByWhateverTheyState) {
  const std::vector<float> whole = waves(32);
  std::vector<float> off = whole;
  off[20] += 1;
  std::vector<float> broken = whole;
  broken[20] = std::nanf("");
  const auto all = [](const std::vector<float>& values) {
    Record made = record(values, "layer_0_q");
    made.summary = summarize(values);
    made.sketch = compute_sketch(values);
    return made;
  };
  const auto head = [&](Record made) {
    made.values.resize(4);
    made.summary.reset();
    made.sketch.reset();
    return made;
  };
  const auto sketch = [&](Record made) {
    made.values.clear();
    made.summary.reset();
    return made;
  };
  const auto summary = [&](Record made) {
    made.values.clear();
    made.sketch.reset();
    return made;
  };
  const auto values = [&](Record made) {
    made.summary.reset();
    made.sketch.reset();
    return made;
  };
  const auto passes = [&](std::vector<Record> replicas) {
    std::vector<std::string> ranks;
    for (size_t i = 0; i < replicas.size(); ++i) {
      replicas[i].shape = {32};
      replicas[i].rank = Rank{.tp = static_cast<int64_t>(i)};
      ranks.push_back(text(replicas[i]));
    }
    return compare_run(line("layer_0_q", 0, whole), ranks).pass;
  };
  const Record right = all(whole);
  for (const std::vector<float>& wrong : {off, broken}) {
    const Record other = all(wrong);
    for (const Record& first : {values(right), head(right)}) {
      EXPECT_TRUE(passes({first, values(right)}) && passes({first, summary(right)}));
      EXPECT_FALSE(passes({first, values(other)}));
      EXPECT_FALSE(passes({values(other), first}));
    }
    EXPECT_TRUE(passes({values(right), sketch(right)}) && passes({summary(right), sketch(right)}));
    EXPECT_FALSE(passes({values(right), summary(other)}));
    EXPECT_FALSE(passes({values(right), sketch(other)}));
    EXPECT_FALSE(passes({summary(right), summary(other)}));
  }
}

// Breaks if ranks' lists of the most probable tokens could differ unseen, or a piece of the
// vocabulary, whose probabilities are a part of 1, were taken for all of it.
TEST_F(ReplicasTest, MostProbableTokensOfRanksAreHeldToOneAnother) {
  const std::vector<float> whole(64, -std::log(64.0F));
  const std::string ref = line("logprobs", 0, whole);
  const auto listed = [](int64_t tp, int64_t n, const std::string& top, const std::string& dims) {
    return fmt::format(
        R"({{"checkpoint":"logprobs","token_idx":0,"dtype":"f32","shape":[{1}],"n":{1},"values":[],)"
        R"("top":[{2}],"rank":{{"tp":{0}}}{3}}})"
        "\n",
        tp, n, top, dims);
  };
  const std::string right = "[3,-4.158883],[5,-4.158883]";
  const std::string first = listed(0, 64, right, "");
  EXPECT_TRUE(compare_run(ref, {first, listed(1, 64, right, "")}).pass);
  for (const char* wrong :
       {"[3,-4.158883],[5,-5.5]", "[3,-4.158883],[6,-4.158883]", R"([3,-4.158883],[5,"NaN"])",
        R"([3,-4.158883],[5,-4.158883],[7,"NaN"])"}) {
    EXPECT_FALSE(compare_run(ref, {first, listed(1, 64, wrong, "")}).pass) << wrong;
    EXPECT_FALSE(compare_run(ref, {listed(0, 64, wrong, ""), listed(1, 64, right, "")}).pass);
  }
  const std::string cut = R"(,"dims":"v[tp]")";
  EXPECT_TRUE(compare_run(ref, {listed(0, 32, right, cut), listed(1, 32, right, cut)}).pass);
}

// Breaks if a rank that logged a tensor at one token, and not at others, passed for a whole
// replica.
TEST_F(ReplicasTest, ARecordThatARankHasAtOtherTokensAloneIsUnproven) {
  const std::vector<float> whole = waves(32);
  std::string ref;
  std::string every;
  for (int64_t token = 0; token < 4; ++token) {
    ref += line("layer_0_q", token, whole);
    every += copy_of("layer_0_q", token, whole, 0);
  }
  const std::string only = copy_of("layer_0_q", 1, whole, 1);
  std::string rank_0_less = only;
  for (const int64_t token : {0, 2, 3}) rank_0_less += copy_of("layer_0_q", token, whole, 1);
  for (const auto& ranks :
       {std::vector{every, only}, std::vector{copy_of("layer_0_q", 1, whole, 0), rank_0_less}}) {
    const bool lacks_rank_1 = ranks[0] == every;
    const Comparison found = compare_run(ref, ranks);
    EXPECT_EQ(found.verdict, Verdict::kIncomplete);
    EXPECT_EQ(found.evidence.whole, 1);
    EXPECT_EQ(found.evidence.unproven, 3);
    ASSERT_EQ(found.warnings.size(), 1U);
    EXPECT_NE(found.warnings.front().find(fmt::format(
                  "3 records are not there of a rank that has the same checkpoint elsewhere, first "
                  "'layer_0_q' at token 0, of rank tp {}",
                  lacks_rank_1 ? 1 : 0)),
              std::string::npos)
        << found.warnings.front();
    // The same of a reference.
    EXPECT_EQ(compare_logs(path("run"), path("ref.jsonl"), options_).evidence.unproven, 3);
  }
  // What is wrong there still fails.
  std::vector<float> off = whole;
  off[7] += 1;
  const std::string wrong = copy_of("layer_0_q", 0, whole, 0) + copy_of("layer_0_q", 1, off, 0);
  EXPECT_EQ(compare_run(ref, {wrong, copy_of("layer_0_q", 0, whole, 1)}).failed, 1);
}

// Breaks if a rank had to log what it never logs, or a header that states the ranks did not show
// it.
TEST_F(ReplicasTest, ACheckpointThatARankNeverLogsPasses) {
  const std::vector<float> whole = waves(32);
  const std::string ref =
      line("layer_0_q", 0, whole) + line("logits", 0, whole) + line("logits", 1, whole);
  const std::string first = copy_of("layer_0_q", 0, whole, 0) + copy_of("logits", 0, whole, 0) +
                            copy_of("logits", 1, whole, 0);
  const std::string second = copy_of("layer_0_q", 0, whole, 1);
  const Comparison plain = compare_run(ref, {first, second});
  EXPECT_EQ(plain.evidence.whole, 3);
  EXPECT_TRUE(plain.warnings.empty());
  const std::string header = R"({"assay":1,"ranks":{"tp":2}})"
                             "\n";
  const Comparison stated = compare_run(ref, {header + first, second});
  EXPECT_EQ(stated.evidence.whole, 3);
  ASSERT_EQ(stated.warnings.size(), 1U);
  EXPECT_NE(stated.warnings.front().find("2 records are of checkpoints that a rank never logs, "
                                         "though the header says that there are 2 of tp, first "
                                         "'logits' at token 0: nothing shows what rank tp 1 has"),
            std::string::npos)
      << stated.warnings.front();
}

// Breaks if a record that states nothing counted as a replica.
TEST_F(ReplicasTest, AReplicaThatStatesNothingIsUnproven) {
  const std::vector<float> whole = waves(32);
  const std::string ref = line("layer_0_q", 0, whole);
  for (const char* summary : {"", R"(,"summary":null)", R"(,"summary":{})"}) {
    const auto empty = [&](int64_t tp) {
      return fmt::format(
          R"({{"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[32],"n":32,)"
          R"("values":[],"rank":{{"tp":{}}}{}}})"
          "\n",
          tp, summary);
    };
    for (const auto& ranks : {std::vector{copy_of("layer_0_q", 0, whole, 0), empty(1)},
                              std::vector{empty(0), copy_of("layer_0_q", 0, whole, 1)}}) {
      const Comparison found = compare_run(ref, ranks);
      EXPECT_EQ(found.verdict, Verdict::kIncomplete);
      EXPECT_EQ(found.evidence.unproven, 1);
      EXPECT_EQ(found.evidence.whole, 0);
    }
  }
}

}  // namespace
}  // namespace assay
