// Pairs are read and compared in parallel; the results are those of one after the other.
#include "assay/compare/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::HasSubstr;

class Measure : public LogFiles {
 protected:
  void read(const std::string& ref, const std::string& got) {
    ref_.emplace(put("ref.jsonl", ref));
    got_.emplace(put("got.jsonl", got));
    names_.emplace(*ref_, *got_);
    tolerances_.assign(static_cast<size_t>(names_->checkpoints.size()),
                       Tolerance{1e-2, {}, {}, {}});
  }

  std::vector<RecordResult> measured(const std::vector<RecordPair>& pairs, int n_threads = 2) {
    ThreadPool pool(n_threads);
    Measured all = measure(pairs, {*ref_, *got_, *names_, tolerances_, options_, offset_}, pool);
    remarks_ = std::move(all.remarks);
    return std::move(all.results);
  }

  CompareOptions options_;
  int64_t offset_ = 0;
  std::optional<LogIndex> ref_;
  std::optional<LogIndex> got_;
  std::optional<SharedNames> names_;
  std::vector<Tolerance> tolerances_;
  std::vector<Measured::Remark> remarks_;  // of the last call
};

// Breaks if a result were that of another pair, or named another record.
TEST_F(Measure, ResultsAreInTheOrderOfThePairs) {
  read(line("q", 3, {1, 2}, R"(,"team":"a")") + line("k", 4, {3, 4}),
       line("k", 9, {3, 5}, R"(,"team":"b")") + line("q", 8, {1, 2}));
  const auto results = measured({{1, 0}, {0, 1}});
  ASSERT_EQ(results.size(), 2U);
  const RecordResult& k = results[0];
  EXPECT_EQ(names_->checkpoints.name(k.checkpoint), "k");
  EXPECT_EQ(k.token_idx, 4) << "as the reference counts";
  EXPECT_EQ(k.ref_team, -1);
  EXPECT_EQ(names_->teams.name(k.got_team), "b");
  EXPECT_NEAR(k.metrics.rel_l2, 0.2, 1e-12);
  EXPECT_TRUE(k.failed());
  const RecordResult& q = results[1];
  EXPECT_EQ(names_->checkpoints.name(q.checkpoint), "q");
  EXPECT_EQ(q.token_idx, 3);
  EXPECT_EQ(names_->teams.name(q.ref_team), "a");
  EXPECT_EQ(q.got_team, -1);
  EXPECT_EQ(q.status, Verdict::kMatch);
  EXPECT_TRUE(q.of_ref && k.of_ref);
}

TEST_F(Measure, AppliesEachCheckpointsOwnTolerance) {
  read(line("q", 0, {1, 2}) + line("k", 0, {1, 2}), line("q", 0, {1, 3}) + line("k", 0, {1, 3}));
  tolerances_[static_cast<size_t>(names_->checkpoints.find("k"))] = {0.9, {}, {}, {}};
  const auto results = measured({{0, 0}, {1, 1}});
  EXPECT_TRUE(results[0].failed());
  EXPECT_FALSE(results[1].failed());
}

// Breaks if a record that only the judged log has were not looked at, or placed at another token.
TEST_F(Measure, ChecksRecordsOnlyInTheJudgedLog) {
  offset_ = 5;
  read(line("q", 0, {1, 2}),
       line("v", 7, {1, NAN}) + line("v", 8, {1, 2}) + line("logits", 7, {1, -INFINITY}));
  const auto results = measured({{-1, 0}, {-1, 1}, {-1, 2}});
  EXPECT_EQ(results[0].failing_metric, Metric::kNonfinite);
  EXPECT_EQ(results[0].failing_value, 1);
  EXPECT_EQ(results[0].token_idx, 2);
  EXPECT_EQ(names_->checkpoints.name(results[0].checkpoint), "v");
  ASSERT_EQ(remarks_.size(), 1U) << "of the pairs that hold garbage alone";
  EXPECT_EQ(remarks_[0].pair, 0U);
  ASSERT_EQ(remarks_[0].found.got_garbage.size(), 1U);
  EXPECT_EQ(remarks_[0].found.got_garbage[0].index, 1);
  EXPECT_FALSE(results[1].failed());
  EXPECT_FALSE(results[2].failed()) << "-Infinity in logits is padding";
  for (const RecordResult& result : results) EXPECT_FALSE(result.of_ref);
  offset_ = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(measured({{-1, 1}})[0].token_idx, 8) << "which would overflow";
}

TEST_F(Measure, ReadsTopTokenListsAsLogits) {
  const std::string top = R"(,"n":4,"top":[[2,-0.1],[0,-3]])";
  read(line("logits", 0, {}, R"(,"n":4,"summary":{"argmax":2,"max":5,"top":[[2,5],[0,2.1]]})"),
       line("logprobs", 0, {}, top));
  const auto results = measured({{0, 0}});
  EXPECT_EQ(results[0].metrics.argmax_got, 2);
  EXPECT_TRUE(results[0].metrics.facts.top);
  EXPECT_TRUE(results[0].metrics.in_nats);
  EXPECT_FALSE(results[0].failed());
}

// Breaks if a batch began again, or ended early, where the next one begins.
TEST_F(Measure, BatchingDoesNotChangeResults) {
  std::string ref;
  std::string got;
  for (int token = 0; token < 5; ++token) {
    ref += line("q", token, {1.0F});
    got += line("q", token, {1.0F + 0.1F * static_cast<float>(token)});
  }
  read(ref, got);
  std::vector<RecordPair> pairs;
  for (int64_t i = 0; i < 20000; ++i) pairs.push_back({i % 5, i % 5});
  std::vector<int64_t> progress;
  options_.progress = [&](int64_t done, int64_t) { progress.push_back(done); };
  for (const int n_threads : {1, 4}) {
    progress.clear();
    const auto results = measured(pairs, n_threads);
    ASSERT_EQ(results.size(), pairs.size());
    for (int64_t i = 0; i < std::ssize(results); ++i) {
      const RecordResult& result = results[static_cast<size_t>(i)];
      ASSERT_EQ(result.token_idx, i % 5);
      ASSERT_NEAR(result.metrics.rel_l2, 0.1 * static_cast<double>(i % 5), 1e-6);
    }
    EXPECT_EQ(progress.size(), 3U) << "batches of 8192";
    EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
    EXPECT_GT(progress.front(), 0);
  }
}

// Breaks if a broken line, which the index does not read, were skipped, or ended a thread.
TEST_F(Measure, RejectsUnreadableLines) {
  std::string broken = line("q", 1, {1, 2});
  broken.replace(broken.find("\"values\":[1,2]"), 14, "\"values\":[1,x]");
  read(line("q", 0, {1, 2}) + line("q", 1, {1, 2}), line("q", 0, {1, 2}) + broken);
  EXPECT_THAT(error_of([&] { measured({{0, 0}, {1, 1}}); }), HasSubstr("got.jsonl:2: 'values'"));
  EXPECT_EQ(measured({{0, 0}}).size(), 1U);
}

TEST_F(Measure, NoPairsGiveNoResults) {
  read(line("q", 0, {1}), line("q", 0, {1}));
  EXPECT_TRUE(measured({}).empty());
}

}  // namespace
}  // namespace assay
