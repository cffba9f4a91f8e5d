#include "assay/report/junit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string junit(const Comparison& comparison) {
  return text_of([&](const TextSink& sink) { write_junit(comparison, example_context(), sink); });
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

// Breaks if a test runner showed a comparison of half a log as if it were whole.
TEST(JunitReport, TellsTheWarnings) {
  Comparison comparison = example_comparison();
  comparison.warnings = {"<one>", "two"};
  EXPECT_THAT(junit(comparison), HasSubstr("<system-err>warning: &lt;one&gt;\nwarning: two\n"
                                           "</system-err>"));
}

// Breaks if a report said that both sides were zeros where they were not, or passed a case of which
// nothing is known.
TEST(JunitReport, WhatCouldNotBeJudgedIsSkippedAndSaysWhy) {
  Comparison comparison = example_comparison();
  RecordResult& logits = comparison.results[1];
  logits.status = Verdict::kInconclusive;
  EXPECT_THAT(junit(comparison), HasSubstr("<skipped message=\"all zeros on both sides\"/>"));
  logits.held = false;
  logits.why_unheld = "it says why";
  EXPECT_THAT(junit(comparison), HasSubstr("<skipped message=\"it says why\"/>"));
  // Beside a token that is known; of other checkpoints that one is enough.
  RecordResult known = logits;
  known.status = Verdict::kNoise;
  known.held = known.metrics.comparable = true;
  known.token_idx = 8;
  comparison.results.push_back(known);
  EXPECT_THAT(junit(comparison), HasSubstr("<skipped message=\"token 7: it says why\"/>"));
  comparison.checkpoints[1] = parse_checkpoint_name("layer_3_k");
  EXPECT_THAT(junit(comparison), HasSubstr("skipped=\"0\""));
  // Zeros at the first token, and equal numbers at the next.
  comparison.results[1].metrics = Metrics();
  comparison.results[1].metrics.all_zero = true;
  comparison.results[1].held = true;
  comparison.results[2].metrics = Metrics();
  EXPECT_THAT(junit(comparison), HasSubstr("skipped=\"0\""));
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
