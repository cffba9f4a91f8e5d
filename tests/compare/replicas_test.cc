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

}  // namespace
}  // namespace assay
