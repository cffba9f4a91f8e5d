// Where the error arises stands beside the first divergence, in every format for people.
#include "assay/report/error_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "assay/report/github_report.h"
#include "assay/report/html_report.h"
#include "assay/report/junit_report.h"
#include "assay/report/table_report.h"
#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Diverges first at layer_3_q, and jumps at layer 2.
Comparison jumping_example(int jump = 2) {
  Comparison comparison = example_comparison();
  comparison.checkpoints.push_back(parse_checkpoint_name("layer_2_output"));
  comparison.checkpoints.push_back(parse_checkpoint_name("layer_3_output"));
  comparison.order = {1, 3, 0, 2};
  comparison.drift.layers = Drift::Course{0, 3, 1e-7, 0.5, Drift::Jump{jump, 3.55e-7, 1.72}};
  return comparison;
}

std::string annotations_of(const Comparison& comparison) {
  return text_of([&](const TextSink& sink) { GithubReport().write_annotations(comparison, sink); });
}

TEST(ErrorOrigin, AJumpBeforeTheFirstDivergenceStandsBesideItInEveryFormat) {
  const Comparison comparison = jumping_example();
  const std::string place =
      "layer_2_output: from 3.55e-07 in the layer before to 1.72, in the median of the tokens";
  EXPECT_THAT(text_of(TableReport(), comparison),
              HasSubstr("is over 0.01\n  error jumps at    " + place + "\n"));
  EXPECT_THAT(text_of(GithubReport(), comparison),
              HasSubstr("is over 0.01\n\n**Error jumps at:** " + place + "\n\n"));
  EXPECT_THAT(text_of(HtmlReport(), comparison),
              HasSubstr("\"origins\":[{\"what\":\"error jumps at\",\"text\":\"" + place + "\"}]"));
  EXPECT_THAT(text_of(JunitReport(), comparison),
              HasSubstr("name=\"error_origin\" value=\"error jumps at " + place + "\"/>"));
  EXPECT_THAT(annotations_of(comparison),
              StartsWith("::error file=got.jsonl,title=error jumps at layer_2_output::" + place +
                         "\n::error file=got.jsonl,title=first divergence%3A layer_3_q::"));
}

TEST(ErrorOrigin, AJumpAtOrAfterTheFirstDivergenceIsNoNews) {
  EXPECT_THAT(error_origins(jumping_example(3)), IsEmpty());
}

// What the op made itself says more than where the error jumps.
TEST(ErrorOrigin, TheSourceTakesThePlaceOfTheJump) {
  Comparison comparison = jumping_example();
  ErrorSource made;
  made.checkpoint = parse_checkpoint_name("layer_2_output");
  made.token_idx = 7;
  made.rel_l2 = 0.5;
  made.own = 0.25;
  made.inherited = 0.4;
  comparison.error_sources = {made};
  const std::string place = "layer_2_output at token 7: 0.25 of its own, 0.4 came in";
  EXPECT_THAT(text_of(GithubReport(), comparison), HasSubstr("**Error made at:** " + place));
  EXPECT_THAT(text_of(HtmlReport(), comparison), HasSubstr("\"text\":\"" + place + "\""));
  EXPECT_THAT(annotations_of(comparison), StartsWith("::error file=got.jsonl,title=error made at "
                                                     "layer_2_output::" +
                                                     place + "\n"));
  EXPECT_THAT(text_of(TableReport(), comparison), Not(HasSubstr("error jumps at")));
  // Made at the first divergence itself, it leaves the jump before that to be told, and needs no
  // annotation of its own.
  comparison.error_sources[0].checkpoint = parse_checkpoint_name("layer_3_q");
  EXPECT_THAT(annotations_of(comparison), StartsWith("::error file=got.jsonl,title=error jumps"));
  comparison.drift.layers.reset();
  EXPECT_THAT(annotations_of(comparison),
              StartsWith("::error file=got.jsonl,title=first divergence"));
}

}  // namespace
}  // namespace assay
