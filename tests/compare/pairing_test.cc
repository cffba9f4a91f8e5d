// Which records of two logs belong together, and what becomes of the rest.
#include "assay/compare/pairing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/evidence.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class PairRecords : public LogFiles {
 protected:
  void pair(const std::string& ref, const std::string& got) {
    ref_.emplace(put("ref.jsonl", ref));
    got_.emplace(put("got.jsonl", got));
    names_.emplace(*ref_, *got_);
    pairing_ = pair_records(*ref_, *got_, *names_, alignment_, options_);
  }

  static std::string at(const LogIndex& log, int64_t place) {
    if (place < 0) return "none";
    const IndexEntry& entry = log.entries()[static_cast<size_t>(place)];
    return fmt::format("{} {}", log.names().name(entry.checkpoint), entry.token_idx);
  }

  // "q 0 = q 1"
  std::vector<std::string> pairs() const {
    std::vector<std::string> all;
    for (const RecordPair& pair : pairing_.pairs) {
      all.push_back(at(*ref_, pair.ref) + " = " + at(*got_, pair.got));
    }
    return all;
  }

  // "q 0 unproven: it is missing in the other log"
  std::vector<std::string> gaps() const {
    std::vector<std::string> all;
    for (const Gap& gap : pairing_.gaps) {
      all.push_back(fmt::format("{} {} {}: {}", names_->checkpoints.name(gap.checkpoint),
                                gap.token_idx, evidence_name(gap.evidence), gap.reason));
    }
    return all;
  }

  // Records of one checkpoint at tokens from `first` on.
  static std::string log_of(const std::string& checkpoint, int64_t first, int count) {
    std::string log;
    for (int i = 0; i < count; ++i) log += line(checkpoint, first + i, {1.0F});
    return log;
  }

  Alignment alignment_;
  CompareOptions options_;
  std::optional<LogIndex> ref_;
  std::optional<LogIndex> got_;
  std::optional<SharedNames> names_;
  Pairing pairing_;
};

TEST_F(PairRecords, OneNameAtOneToken) {
  pair(log_of("q", 0, 2) + log_of("k", 0, 1), log_of("k", 0, 1) + log_of("q", 1, 2));
  EXPECT_THAT(pairs(), UnorderedElementsAre("q 1 = q 1", "k 0 = k 0", "none = q 2"));
  EXPECT_THAT(gaps(), ElementsAre("q 0 unproven: it is missing in the other log"));
  EXPECT_EQ(pairing_.unmatched_got, 1);
}

TEST_F(PairRecords, TheOffsetIsAddedToTheReferencesToken) {
  alignment_.offset = 3;
  pair(log_of("q", 0, 2), log_of("q", 2, 2));
  EXPECT_THAT(pairs(), ElementsAre("q 0 = q 3", "none = q 2"));
  EXPECT_THAT(gaps(), ElementsAre("q 1 unproven: it is missing in the other log"));
}

// Breaks if a hostile token number overflowed.
TEST_F(PairRecords, OverflowingTokenIndexIsMissing) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  alignment_.offset = kMost;
  pair(log_of("q", kMost, 1) + log_of("q", 0, 1), log_of("q", kMost, 1) + log_of("q", 5, 1));
  EXPECT_THAT(pairs(), UnorderedElementsAre(fmt::format("q 0 = q {}", kMost), "none = q 5"));
  EXPECT_EQ(pairing_.gaps.size(), 1U);
}

// Breaks if a gap that was accepted by name failed the comparison, or one that was not passed.
TEST_F(PairRecords, AcceptsGapsByCheckpointName) {
  options_.allow_missing = {"layer_*_q"};
  pair(log_of("layer_0_q", 0, 2) + log_of("layer_0_k", 0, 1), log_of("layer_0_q", 0, 1));
  EXPECT_THAT(pairs(), ElementsAre("layer_0_q 0 = layer_0_q 0"));
  EXPECT_THAT(gaps(), ElementsAre("layer_0_q 1 excused: accepted by --allow-missing",
                                  "layer_0_k 0 unproven: it is missing in the other log"));
}

// Breaks if tokens that an offset drops were excused though only the data shows it.
TEST_F(PairRecords, ExcusesTokensBeforeTheOthersFirstIfHeadersShowThem) {
  const std::string missing = "q 0 unproven: it is missing in the other log";
  alignment_.offset = -1;
  const auto gaps_by = [&](Alignment::Shift shift) {
    alignment_.shift = shift;
    alignment_.lacks_bos = shift == Alignment::Shift::kByTokens;
    pair(log_of("q", 0, 4), log_of("q", 0, 3));
    EXPECT_EQ(pairing_.pairs.size(), 3U);
    return gaps();
  };
  EXPECT_THAT(gaps_by(Alignment::Shift::kNone), ElementsAre(missing));
  EXPECT_THAT(gaps_by(Alignment::Shift::kByEmbedding), ElementsAre(missing));
  EXPECT_THAT(gaps_by(Alignment::Shift::kByTokens),
              ElementsAre("q 0 excused: the prompts of the two begin otherwise"));
  options_.whole_required = true;
  EXPECT_THAT(gaps_by(Alignment::Shift::kByTokens),
              ElementsAre("q 0 unproven: the prompts of the two begin otherwise"));
  options_.whole_required = false;
  pair(log_of("q", 0, 5), log_of("q", 0, 3));
  EXPECT_THAT(gaps(), ElementsAre("q 0 excused: the prompts of the two begin otherwise",
                                  "q 4 unproven: it is missing in the other log"))
      << "the end of a log is not its beginning";
  alignment_.offset = -2;
  alignment_.lacks_bos = false;
  pair(log_of("q", 0, 5), log_of("q", 0, 3));
  EXPECT_THAT(gaps(), ElementsAre("q 0 unproven: it is missing in the other log",
                                  "q 1 unproven: it is missing in the other log"))
      << "two tokens are no BOS";
}

// Breaks if a gap that the user accepts by name stayed open for another reason.
TEST_F(PairRecords, AcceptedGapAppliesBeforeTheOthersFirstToken) {
  alignment_.offset = -1;
  alignment_.shift = Alignment::Shift::kByTokens;
  options_.allow_missing = {"q"};
  for (const bool whole_required : {false, true}) {
    options_.whole_required = whole_required;
    pair(log_of("q", 0, 4), log_of("q", 0, 3));
    ASSERT_EQ(pairing_.gaps.size(), 1U);
    EXPECT_EQ(pairing_.gaps[0].evidence, Evidence::kExcused) << whole_required;
  }
}

TEST_F(PairRecords, LogProbabilitiesStandForLogits) {
  pair(log_of("logits", 0, 1), log_of("logprobs", 0, 1));
  EXPECT_THAT(pairs(), ElementsAre("logits 0 = logprobs 0"));
  EXPECT_THAT(gaps(), IsEmpty());
  pair(log_of("logprobs", 0, 1), log_of("logits", 0, 1));
  EXPECT_THAT(pairs(), ElementsAre("logprobs 0 = logits 0"));
  pair(log_of("logits", 0, 2), log_of("logprobs", 0, 2) + log_of("logits", 1, 1));
  EXPECT_THAT(pairs(), UnorderedElementsAre("logits 0 = logprobs 0", "logits 1 = logits 1",
                                            "logits 1 = logprobs 1"))
      << "the same name goes first, token by token, and the other states the same again";
  EXPECT_FALSE(pairing_.pairs[1].restated);
  EXPECT_TRUE(pairing_.pairs[2].restated);
}

TEST_F(PairRecords, UnselectedRecordsAreNoGap) {
  options_.selection.set_tokens("1..2", "--tokens");
  options_.selection.set_checkpoints("q", "--checkpoints");
  alignment_.offset = 10;
  pair(log_of("q", 0, 5) + log_of("k", 0, 5), log_of("q", 12, 3) + log_of("k", 11, 2));
  std::erase_if(pairing_.pairs, [](const RecordPair& one) { return !one.selected; });
  EXPECT_THAT(pairs(), ElementsAre("q 2 = q 12"));
  EXPECT_THAT(gaps(), ElementsAre("q 1 unproven: it is missing in the other log"));
  EXPECT_EQ(pairing_.unmatched_got, 0);
}

TEST_F(PairRecords, NamesAndTeamsShareOneTable) {
  pair(line("k", 0, {1}, R"(,"team":"a")") + line("q", 0, {1}, R"(,"team":"b")"),
       line("q", 0, {1}, R"(,"team":"c")") + line("v", 0, {1}, R"(,"team":"a")"));
  EXPECT_EQ(names_->checkpoints.size(), 3);
  EXPECT_EQ(names_->teams.size(), 3);
  EXPECT_EQ(names_->checkpoints.find("k"), 0);
  EXPECT_EQ(names_->checkpoints.find("v"), 2);
  EXPECT_EQ(names_->teams.find("c"), 2);
  EXPECT_EQ(names_->checkpoints.find("logits"), -1);
}

}  // namespace
}  // namespace assay
