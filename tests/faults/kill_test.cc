#include <algorithm>
#include <random>

#include "tests/faults/fault_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

constexpr int kKills = 20;  // of each case; there are ten
constexpr int kTokens = 150;

// A run that logs is killed at a random moment, again and again: a part of a token after it told of
// a number of tokens, however fast the machine is at that moment.
class KilledRun : public FaultCase, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    FaultCase::SetUp();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(finish(this->start(long_run(path("whole.jsonl"), kTokens))).exit_code, 0);
    duration_ = std::chrono::steady_clock::now() - start;
    whole_ = contents(path("whole.jsonl"));
    ASSERT_GT(std::count(whole_.begin(), whole_.end(), '\n'), 2000);
  }

  // Kills a run that has told of `part` of its tokens, and returns how many it had told of by then:
  // the records that a token was chosen from are finished before that.
  int64_t kill_after(double part) {
    int told[2];
    EXPECT_EQ(pipe(told), 0);
    std::filesystem::remove(path("cut.jsonl"));
    const pid_t child = start(long_run(path("cut.jsonl"), kTokens), [&] {
      dup2(told[1], STDOUT_FILENO);
      close(told[0]);
    });
    close(told[1]);
    const auto tokens = static_cast<int64_t>(part * kTokens);
    const auto of_next = std::chrono::duration_cast<std::chrono::nanoseconds>(
        duration_ / kTokens * (part * kTokens - static_cast<double>(tokens)));
    std::string text;
    const auto read_some = [&] {
      char piece[4096];
      const ssize_t got = ::read(told[0], piece, sizeof(piece));
      if (got > 0) text.append(piece, static_cast<size_t>(got));
      return got > 0;
    };
    while (std::count(text.begin(), text.end(), ' ') < tokens && read_some()) {
    }
    std::this_thread::sleep_for(of_next);
    kill(child, SIGKILL);
    while (read_some()) {
    }
    close(told[0]);
    waitpid(child, nullptr, 0);
    return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), ' ');
  }

  std::string whole_;
  std::chrono::nanoseconds duration_{};
};

TEST_P(KilledRun, LosesNoFinishedRecordAndStillCompares) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  std::uniform_real_distribution<double> moment(0.0, 1.0);
  int within = 0;
  for (int i = 0; i < kKills; ++i) {
    const double part = moment(random);
    SCOPED_TRACE(part);
    const int64_t told = kill_after(part);
    const std::string cut = contents(path("cut.jsonl"));
    // The same bytes as far as they go: nothing is torn but the end.
    ASSERT_TRUE(whole_.starts_with(cut));
    // Logits of token t are logged at the position before it.
    const std::string last = "\"checkpoint\":\"logits\",\"token_idx\":" + std::to_string(1 + told);
    if (told > 0) {
      const size_t place = cut.find(last + ",");
      ASSERT_NE(place, std::string::npos) << told << " tokens were told";
      ASSERT_NE(cut.find('\n', place), std::string::npos);
    }
    const auto records = std::count(cut.begin(), cut.end(), '\n') - 1;  // without the header
    const auto all = std::count(whole_.begin(), whole_.end(), '\n') - 1;
    const bool torn = !cut.empty() && cut.back() != '\n';
    const Outcome outcome =
        run({"compare", path("cut.jsonl"), path("whole.jsonl"), "--format", "json"});
    if (records <= 0) {
      expect_one_line(outcome, std::filesystem::exists(path("cut.jsonl"))
                                   ? "the log holds no records"
                                   : "cannot open");
      continue;
    }
    ++within;
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("the last line is cut off and was left out") != std::string::npos,
              torn);
    EXPECT_THAT(outcome.out,
                HasSubstr("\"compared\":" + std::to_string(records) + ",\"failed\":0"));
    EXPECT_THAT(outcome.out, HasSubstr("\"unmatched_ref\":0,\"unmatched_got\":" +
                                       std::to_string(all - records)));
  }
  EXPECT_GT(within, kKills / 4) << "the moments did not fall into the run";
}

INSTANTIATE_TEST_SUITE_P(Moments, KilledRun, testing::Range(0, 10));

}  // namespace
}  // namespace assay
