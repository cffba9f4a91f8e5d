// Evidence is a function of the facts that both logs state, the limits of the policy, and what the
// user asked to be shown.
#include "assay/compare/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace assay {
namespace {

using testing::HasSubstr;

const Tolerance kRelL2{1e-2, {}, {}, {}};
const Tolerance kMaxAbs{{}, 1e-2, {}, {}};
const Tolerance kKl{{}, {}, 1e-2, {}};

struct Limits {
  const char* name;
  Tolerance tolerance;
  bool kl_measured;  // the KL divergence of the record is known
};

std::vector<Limits> limits() {
  return {{"rel_l2", kRelL2, false},
          {"max_abs", kMaxAbs, false},
          {"rel_l2 and max_abs", {1e-2, 1, {}, {}}, false},
          {"kl, measured", kKl, true},
          {"kl, not measured", kKl, false},
          {"a floor, which is no limit", {{}, {}, {}, 1e-6}, false}};
}

struct Row {
  const char* name;
  SharedFacts facts;
  const char* shown;  // for each of limits(): W whole, P partial, - unproven
};

std::vector<Row> rows() {
  return {
      {"all values", {.all_values = true, .head = true}, "WWWW--"},
      {"all values, all zero", {.all_values = true}, "WWWW--"},
      {"a head", {.head = true}, "PPPP--"},
      {"a head and a sketch", {.head = true, .sketch = true}, "WPWP--"},
      {"a sketch", {.sketch = true}, "W-WP--"},
      {"a sketch and a summary", {.sketch = true, .summary = true}, "W-WP--"},
      {"a summary", {.summary = true}, "P-PP--"},
      {"a largest element", {.top = true}, "PPPP--"},
      {"norms of zero", {.zeros = true}, "P-PP--"},
      {"a head, a summary, a largest element",
       {.head = true, .summary = true, .top = true},
       "PPPP--"},
  };
}

char letter_of(Evidence evidence) {
  switch (evidence) {
    case Evidence::kWhole:
      return 'W';
    case Evidence::kPartial:
      return 'P';
    case Evidence::kUnproven:
      return '-';
    default:
      return '?';
  }
}

// Breaks if a part counted as the whole, or if a limit counted as held where nothing could be held
// to it.
TEST(Evidence, FollowsFromFactsAndLimits) {
  for (const Row& row : rows()) {
    std::string shown;
    std::string shown_whole;
    std::string expected_whole;
    for (const Limits& limit : limits()) {
      Metrics metrics;
      metrics.n = 16;
      metrics.facts = row.facts;
      if (limit.kl_measured) metrics.kl = 0;
      std::string_view reason;
      shown += letter_of(evidence_of(metrics, limit.tolerance, {}, reason));
      EXPECT_EQ(reason.empty(), shown.back() != '-') << row.name << ", " << limit.name;
      std::string_view whole_reason;
      const EvidenceRequired whole{.whole = true};
      shown_whole += letter_of(evidence_of(metrics, limit.tolerance, whole, whole_reason));
      EXPECT_EQ(whole_reason.empty(), shown_whole.back() != '-') << row.name << ", " << limit.name;
      if (shown.back() == 'P') {
        EXPECT_THAT(std::string(whole_reason), HasSubstr("only a part of it was compared"));
      }
      expected_whole += shown.back() == 'W' ? 'W' : '-';
    }
    EXPECT_EQ(shown, row.shown) << row.name;
    EXPECT_EQ(shown_whole, expected_whole) << row.name;
  }
}

// Breaks if the reader were told of a missing value where the policy is at fault, or the reverse.
TEST(Evidence, ReasonNamesWhatIsMissing) {
  const auto reason_of = [](const Metrics& metrics, const Tolerance& tolerance) {
    std::string_view reason;
    EXPECT_EQ(evidence_of(metrics, tolerance, {}, reason), Evidence::kUnproven);
    return std::string(reason);
  };
  Metrics metrics;
  metrics.facts.summary = true;
  EXPECT_EQ(reason_of(metrics, kRelL2), "it has no elements");
  metrics = {};
  metrics.n = 16;
  for (const Tolerance& tolerance : {kRelL2, kMaxAbs, kKl}) {
    EXPECT_THAT(reason_of(metrics, tolerance), HasSubstr("no value, sketch or summary of it"));
  }
  metrics.compared = 10;
  metrics.all_zero = true;
  EXPECT_THAT(reason_of(metrics, kRelL2), HasSubstr("all zero"));
  metrics.all_zero = false;
  EXPECT_THAT(reason_of(metrics, kRelL2), HasSubstr("all infinite"));
  metrics.facts.sketch = true;
  EXPECT_THAT(reason_of(metrics, kMaxAbs), HasSubstr("no limit of the policy"));
  metrics.facts.all_values = metrics.unclear_nonfinite = true;
  EXPECT_THAT(reason_of(metrics, kRelL2), HasSubstr("do not tell whether they are the same"));
}

// Breaks if a max_abs beyond the values of a tensor let zeros, or another tensor, pass.
TEST(Evidence, MaxAbsLetsNoErrorPassThatIsAsLargeAsTheReference) {
  struct Case {
    double rel_l2;
    double ref_rms;
    Tolerance tolerance;
    Evidence expected;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tolerance with_kl{{}, 900, 0.5, {}};
  const Tolerance wide{{}, 900, {}, {}};
  for (const Case& c :
       {Case{0.99, 1, wide, Evidence::kWhole}, Case{1, 1, wide, Evidence::kUnproven},
        Case{2, 1, wide, Evidence::kUnproven}, Case{nan, 1, wide, Evidence::kUnproven},
        Case{2, 0, wide, Evidence::kWhole},  // no error is small beside zeros
        Case{2, 1, with_kl, Evidence::kWhole}}) {
    Metrics metrics;
    metrics.n = 16;
    metrics.facts.all_values = true;
    metrics.rel_l2 = c.rel_l2;
    metrics.ref_rms = c.ref_rms;
    if (c.tolerance.kl) metrics.kl = 0.1;
    std::string_view reason;
    EXPECT_EQ(evidence_of(metrics, c.tolerance, {}, reason), c.expected) << c.rel_l2;
    if (c.expected == Evidence::kUnproven) {
      EXPECT_THAT(std::string(reason), HasSubstr("max_abs allows an error as large"));
    }
  }
}

// Breaks if a choice that one log keeps to itself were as good as one that both state.
TEST(Evidence, RequiredArgmaxMustBeStatedByBoth) {
  struct Case {
    bool ref;
    bool got;
    const char* reason;
  };
  for (const Case& c : {Case{true, true, ""}, Case{true, false, "the other log does not tell"},
                        Case{false, true, "the reference does not tell"},
                        Case{false, false, "neither log tells"}}) {
    Metrics metrics;
    metrics.n = 16;
    metrics.facts.all_values = true;
    if (c.ref) metrics.argmax_ref = 3;
    if (c.got) metrics.argmax_got = 3;
    std::string_view reason;
    const EvidenceRequired asked{.argmax = true};
    EXPECT_EQ(evidence_of(metrics, kRelL2, asked, reason), Evidence::kWhole) << "no logits";
    metrics.is_logits = true;
    EXPECT_EQ(evidence_of(metrics, kRelL2, {}, reason), Evidence::kWhole) << "not asked for";
    EXPECT_EQ(reason, "");
    const bool known = c.ref && c.got;
    EXPECT_EQ(evidence_of(metrics, kRelL2, asked, reason),
              known ? Evidence::kWhole : Evidence::kUnproven);
    EXPECT_THAT(std::string(reason), HasSubstr(c.reason));
    EXPECT_EQ(lacks_argmax(reason), !known);
    EXPECT_EQ(reason.empty(), known);
  }
}

// A comparison of "q", "logits" and "logprobs", of which the network computes logits last.
class CountEvidence : public testing::Test {
 protected:
  enum Checkpoint : int32_t { kQ, kLogitsId, kLogprobsId };

  CountEvidence() {
    for (const char* name : {"q", "logits", "logprobs"}) {
      comparison_.checkpoints.push_back(parse_checkpoint_name(name));
    }
    comparison_.order = {0, 2, 1};
  }

  RecordResult& add(int32_t checkpoint, int64_t token_idx, Evidence evidence,
                    std::string_view reason = {}) {
    RecordResult& result = comparison_.results.emplace_back();
    result.checkpoint = checkpoint;
    result.token_idx = token_idx;
    result.evidence = evidence;
    result.reason = reason;
    return result;
  }

  EvidenceCounts count() const { return count_evidence(comparison_); }

  Comparison comparison_;
};

TEST_F(CountEvidence, CountsEachStateOnce) {
  EXPECT_EQ(count().whole + count().partial + count().excused + count().unproven, 0);
  EXPECT_FALSE(count().first_unproven);
  for (int i = 0; i < 2; ++i) add(kQ, i, Evidence::kWhole);
  for (int i = 0; i < 3; ++i) add(kQ, 10 + i, Evidence::kPartial);
  for (int i = 0; i < 4; ++i) add(kQ, 20 + i, Evidence::kUnproven, "why");
  for (int i = 0; i < 5; ++i) add(kQ, 30 + i, Evidence::kFailed);
  for (int i = 0; i < 6; ++i) {
    comparison_.gaps.push_back({kQ, 40 + i, Evidence::kExcused, kAfterSplit});
  }
  comparison_.gaps.push_back({kQ, 50, Evidence::kUnproven, kMissing});
  const EvidenceCounts counts = count();
  EXPECT_EQ(counts.whole, 2);
  EXPECT_EQ(counts.partial, 3);
  EXPECT_EQ(counts.unproven, 5);
  EXPECT_EQ(counts.excused, 6);
  EXPECT_EQ(counts.argmax_total, 0);
}

// Breaks if a record that the judged log alone has were shown as one of the reference.
TEST_F(CountEvidence, DoesNotCountRecordsOnlyInTheJudgedLog) {
  for (const Evidence evidence : {Evidence::kWhole, Evidence::kUnproven, Evidence::kPartial}) {
    add(kLogitsId, 0, evidence).of_ref = false;
  }
  const EvidenceCounts counts = count();
  EXPECT_EQ(counts.whole + counts.partial + counts.unproven + counts.argmax_total, 0);
  EXPECT_FALSE(counts.first_unproven);
}

// Breaks if the first were that of the list: gaps stand in a list of their own.
TEST_F(CountEvidence, FirstUnprovenIsByTokenThenNetworkOrder) {
  add(kLogitsId, 3, Evidence::kUnproven, "a result");
  EXPECT_EQ(count().first_unproven->reason, "a result");
  comparison_.gaps.push_back({kLogprobsId, 3, Evidence::kUnproven, "computed before"});
  EXPECT_EQ(count().first_unproven->reason, "computed before");
  EXPECT_EQ(count().first_unproven->checkpoint.name, "logprobs");
  comparison_.gaps.push_back({kLogitsId, 2, Evidence::kUnproven, "an earlier token"});
  comparison_.gaps.push_back({kQ, 3, Evidence::kUnproven, "a later token"});
  comparison_.gaps.push_back({kQ, 0, Evidence::kExcused, kAllowedMissing});
  const EvidenceCounts counts = count();
  EXPECT_EQ(counts.first_unproven->reason, "an earlier token");
  EXPECT_EQ(counts.first_unproven->token_idx, 2);
}

// Breaks if "argmax 33 of 33" could be said where the logits of one token are missing.
TEST_F(CountEvidence, ArgmaxIsKnownWhereBothStateIt) {
  add(kLogitsId, 0, Evidence::kWhole).metrics.argmax_ref = 1;
  comparison_.results.back().metrics.argmax_got = 0;
  add(kLogprobsId, 1, Evidence::kPartial).metrics.argmax_ref = 1;
  add(kLogitsId, 2, Evidence::kFailed).metrics.argmax_got = 1;
  add(kLogitsId, 3, Evidence::kUnproven);
  add(kQ, 3, Evidence::kWhole).metrics.argmax_ref = 1;
  comparison_.gaps.push_back({kLogitsId, 4, Evidence::kUnproven, kMissing});
  comparison_.gaps.push_back({kLogitsId, 5, Evidence::kExcused, kAfterSplit});
  comparison_.gaps.push_back({kQ, 5, Evidence::kUnproven, kMissing});
  const EvidenceCounts counts = count();
  EXPECT_EQ(counts.argmax_known, 1);
  EXPECT_EQ(counts.argmax_total, 5);
}

}  // namespace
}  // namespace assay
