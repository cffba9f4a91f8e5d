#include "assay/report/junit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string junit(const Comparison& comparison) {
  return text_of(JunitReport(), comparison);
}

TEST(JunitReport, HasACaseForEachCheckpoint) {
  const std::string text = junit(example_comparison());
  EXPECT_THAT(text, HasSubstr("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(text, HasSubstr("<testcase classname=\"model.layer_3\" name=\"layer_3_q\""));
  EXPECT_THAT(text, HasSubstr("<failure type=\"wrong\" message=\"first divergence: token 7: rel_l2 "
                              "0.0251 is over 0.01\">"));
  EXPECT_THAT(text, HasSubstr("<testcase classname=\"model\" name=\"logits\" time=\"0\"/>"));
}

TEST(JunitReport, ZerosAreSkippedNotPassed) {
  Comparison comparison = example_comparison();
  comparison.results[1].status = Verdict::kInconclusive;
  comparison.results[1].metrics.all_zero = true;
  EXPECT_THAT(junit(comparison), HasSubstr("skipped=\"1\""));
  EXPECT_THAT(junit(comparison), HasSubstr("<skipped message=\"all zeros on both sides\"/>"));
}

// Breaks if a test runner showed a comparison as green that exits with 2.
TEST(JunitReport, WhereAllAreZerosTheyFail) {
  const std::string text = junit(zeros_example());
  EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(text, HasSubstr("<failure type=\"inconclusive\" message=\"all zeros on both sides, "
                              "which proves nothing\"/>"));
}

// Breaks if a test runner showed a comparison of half a log as if it were whole.
TEST(JunitReport, TellsTheWarnings) {
  Comparison comparison = example_comparison();
  comparison.warnings = {"<one>", "two"};
  EXPECT_THAT(junit(comparison), HasSubstr("<system-err>warning: &lt;one&gt;\nwarning: two\n"
                                           "</system-err>"));
}

// Breaks if a test runner showed a checkpoint green, or not at all, that is missing in the log.
TEST(JunitReport, AMissingCheckpointIsAFailedCase) {
  const std::string text = junit(incomplete_example());
  EXPECT_THAT(text, HasSubstr("tests=\"3\" failures=\"2\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(text,
              HasSubstr("<testcase classname=\"model.layer_4\" name=\"layer_4_q\" time=\"0\">\n"
                        "      <failure type=\"unproven\" message=\"unproven at 2 tokens, the "
                        "first 7: it is missing in the other log\"/>\n    </testcase>\n"));
  // Of another, one token is missing.
  EXPECT_THAT(text, HasSubstr("name=\"layer_3_q\" time=\"0\">\n      <failure type=\"unproven\" "
                              "message=\"unproven at 1 token, the first 8: "));
  EXPECT_THAT(text,
              HasSubstr("<property name=\"evidence\" value=\"6 records of the reference: 1 "
                        "whole, 1 partial, 1 excused, 3 unproven, argmax 1 of 1 (1 excused)\"/>"));
}

// Breaks if each checkpoint failed that was not compared after the two parted: those that are wrong
// would drown.
TEST(JunitReport, WhatFollowsASplitFailsOnce) {
  Comparison comparison = incomplete_example();
  for (Gap& gap : comparison.gaps) {
    if (gap.evidence == Evidence::kUnproven) gap.reason = kAfterSplit;
  }
  comparison.split = Split{7, 33, 32, 3};
  const std::string text = junit(comparison);
  EXPECT_THAT(text, HasSubstr("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(text, HasSubstr("<testcase classname=\"model\" name=\"after the split\" time=\"0\">"
                              "\n      <failure type=\"unproven\" message=\"3 records of the "
                              "reference from token 7 on are unproven: the two went on with other "
                              "tokens\"/>"));
  // What is missing for another reason fails as it did.
  comparison.gaps[0].reason = kMissing;
  EXPECT_THAT(junit(comparison),
              HasSubstr("tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"1\""));
}

// Breaks if an accepted gap made a test runner red.
TEST(JunitReport, AnExcusedCheckpointPasses) {
  Comparison comparison = incomplete_example();
  for (Gap& gap : comparison.gaps) gap.evidence = Evidence::kExcused;
  const std::string text = junit(comparison);
  EXPECT_THAT(text, HasSubstr("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(text, HasSubstr("name=\"layer_4_q\" time=\"0\"/>"));
}

// Breaks if a report passed a case of which nothing is known, though it was compared.
TEST(JunitReport, WhatIsUnprovenFailsAndSaysWhy) {
  Comparison comparison = example_comparison();
  RecordResult& logits = comparison.results[1];
  logits.status = Verdict::kIncomplete;
  logits.evidence = Evidence::kUnproven;
  logits.reason = "it says why";
  EXPECT_THAT(junit(comparison), HasSubstr("<failure type=\"unproven\" message=\"unproven at 1 "
                                           "token, the first 7: it says why\"/>"));
  // A failure says more, and stands alone.
  logits.evidence = Evidence::kFailed;
  logits.failing_metric = Metric::kNonfinite;
  logits.failing_value = 2;
  EXPECT_THAT(junit(comparison), Not(HasSubstr("\"unproven\"")));
}

// XML has no way to hold most control characters, not even as references.
TEST(JunitReport, NamesCannotBreakTheXml) {
  Comparison comparison = example_comparison();
  comparison.checkpoints[0].name = "</testcase>\"'&\x01\x1b\xff\xef\xbf\xbe]]>";
  comparison.first_divergence->checkpoint.name = comparison.checkpoints[0].name;
  const std::string text = junit(comparison);
  EXPECT_THAT(text, HasSubstr("name=\"&lt;/testcase&gt;&quot;&#39;&amp;\\x01\\x1b\\xff\\xef\\xbf"
                              "\\xbe]]&gt;\""));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace assay
