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
  EXPECT_THAT(junit(comparison), HasSubstr("skipped=\"1\""));
  EXPECT_THAT(junit(comparison), HasSubstr("<skipped message=\"all zeros on both sides\"/>"));
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
