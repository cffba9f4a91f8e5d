#include "assay/report/github_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string annotations(const Comparison& comparison) {
  return text_of([&](const TextSink& sink) { GithubReport().write_annotations(comparison, sink); });
}
std::string summary(const Comparison& comparison, size_t max_bytes = kGithubSummaryBytes) {
  ReportContext context = example_context();
  context.max_bytes = max_bytes;
  return text_of(GithubReport(), comparison, context);
}

// `layers` checkpoints, all failing; the later the layer, the earlier the token.
Comparison failing(int layers) {
  Comparison comparison = example_comparison();
  const RecordResult failed = comparison.results[0];
  comparison.checkpoints.clear();
  comparison.results.clear();
  comparison.order.clear();
  for (int layer = 0; layer < layers; ++layer) {
    comparison.order.push_back(layer);
    comparison.checkpoints.push_back(
        parse_checkpoint_name("layer_" + std::to_string(layer) + "_output"));
    comparison.results.push_back(failed);
    comparison.results.back().checkpoint = layer;
    comparison.results.back().token_idx = layers - layer;
  }
  return comparison;
}

TEST(GithubReport, TheSummaryTellsTheWarnings) {
  Comparison comparison = example_comparison();
  comparison.warnings = {"<one>"};
  EXPECT_THAT(summary(comparison), HasSubstr("\n\n- &#9888;&#65039; &#60;one&#62;\n\nCompare"));
}

TEST(GithubAnnotations, TheFirstDivergenceIsTheFirst) {
  const std::string text = annotations(failing(3));
  EXPECT_THAT(text, StartsWith("::error file=got.jsonl,title=first divergence%3A "
                               "layer_2_output::layer_2_output: wrong at token 1: rel_l2 0.0251 "
                               "is over 0.01 (1 of 1 token fails)\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

// GitHub drops what is beyond ten; breaks if the tenth did not tell of the others.
TEST(GithubAnnotations, AreAtMostTen) {
  const std::string text = annotations(failing(50));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("title=41 more checkpoints diverge::the next: layer_"));
}

TEST(GithubAnnotations, NothingOfALogIsACommand) {
  Comparison comparison = example_comparison();
  comparison.got_path = "a,b:c%.jsonl";
  comparison.checkpoints[0].name = "x\n::add-mask::y\r##[set-env name=A]%0Ab";
  const std::string text = annotations(comparison);
  EXPECT_THAT(text, StartsWith("::error file=a%2Cb%3Ac%25.jsonl,title="));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("##[")));
  EXPECT_THAT(text, HasSubstr("%250A"));
}

TEST(GithubAnnotations, ParityHasNone) {
  Comparison comparison = example_comparison();
  comparison.results.erase(comparison.results.begin());
  comparison.verdict = Verdict::kNoise;
  comparison.pass = true;
  EXPECT_EQ(annotations(comparison), "");
}

// Breaks if a check that exits with 2 said nothing beside the log that it read.
TEST(GithubAnnotations, AnIncompleteComparisonHasOne) {
  const std::string text = annotations(incomplete_example());
  EXPECT_THAT(text, StartsWith("::error file=got.jsonl,title=Assay%3A incomplete::got.jsonl: 3 "
                               "records of ref.jsonl are unproven, the first layer_4_q at token 7: "
                               "it is missing in the other log; "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// Breaks if the annotation of a comparison of zeros had no text, and its table check marks.
TEST(GithubAnnotations, AnInconclusiveComparisonHasOne) {
  EXPECT_EQ(annotations(zeros_example()),
            "::error file=got.jsonl,title=Assay%3A inconclusive::got.jsonl: parity with ref.jsonl "
            "is not proved: the 1 record in common holds nothing but zeros; check that both "
            "engines ran, and what they log\n");
  EXPECT_THAT(summary(zeros_example()), HasSubstr("| &#9888;&#65039; <code>logits</code> |"));
}

// Breaks if the sentence were cut that says how to get a verdict: what helps stands at its end.
TEST(GithubSummary, SaysWhatHelpsToTheEnd) {
  Comparison incomplete = incomplete_example();
  incomplete.got_path = std::string(150, 'g') + ".jsonl";
  EXPECT_THAT(summary(incomplete),
              HasSubstr("narrow the comparison to what was logged with &#45;&#45;checkpoints"));
  EXPECT_THAT(summary(incomplete), HasSubstr("or accept what is missing with &#45;&#45;allow"));
  Comparison diverged = example_comparison();
  diverged.cause_hint = std::string(300, 'h') + " end";
  EXPECT_THAT(summary(diverged), HasSubstr(" end.\n"));
  diverged.causes_not_tried = {"eps"};
  EXPECT_THAT(summary(diverged),
              HasSubstr("Causes not tried everywhere, as the work is bounded: "));
}

TEST(GithubSummary, TellsWhatIsMissing) {
  const std::string text = summary(incomplete_example());
  EXPECT_THAT(text, StartsWith("### &#9888;&#65039; INCOMPLETE: nothing failed, but 3 records"));
  EXPECT_THAT(text, HasSubstr("| &#9888;&#65039; <code>layer_4_q</code> | 7 | - | - | - | - | - | "
                              "unproven |\n"));
  // Compared at one token and missing at another: no check mark.
  EXPECT_THAT(text, HasSubstr("| &#9888;&#65039; <code>layer_3_q</code> | 7 | 0 of 1 |"));
  EXPECT_THAT(text, HasSubstr("| &#9989; <code>logits</code> |"));
}

TEST(GithubSummary, SaysFirstWhatMattersMost) {
  const std::string text = summary(example_comparison());
  EXPECT_THAT(text, StartsWith("### &#10060; DIVERGED: "));
  EXPECT_THAT(text, HasSubstr("**First divergence:** layer_3_q at token 7"));
  EXPECT_THAT(text, HasSubstr("| &#10060; <code>layer_3_q</code> | 7 | 1 of 1 | 0.0251 | 0.01 |"));
}

TEST(GithubSummary, ACheckpointOfWhichNothingIsProvedHasNoCheckMark) {
  Comparison comparison = example_comparison();
  comparison.results[1].status = Verdict::kInconclusive;
  comparison.results[1].evidence = Evidence::kUnproven;
  EXPECT_THAT(summary(comparison), HasSubstr("| &#9888;&#65039; <code>logits</code> |"));
}

// A step's summary over 1 MiB is dropped as a whole.
TEST(GithubSummary, StaysWithinItsLimit) {
  const Comparison comparison = failing(30000);
  const std::string text = summary(comparison);
  EXPECT_LE(text.size(), kGithubSummaryBytes);
  EXPECT_GT(text.size(), kGithubSummaryBytes - 1000);
  EXPECT_THAT(text, HasSubstr("more checkpoints do not fit into the summary"));
  EXPECT_LE(summary(comparison, 100).size(), 100U);
}

TEST(GithubSummary, NamesAreNoMarkup) {
  Comparison comparison = example_comparison();
  comparison.checkpoints[0].name = "|`*_<img src=x>[a](http://b)@c\n# d";
  const std::string text = summary(comparison);
  EXPECT_THAT(text, Not(HasSubstr("<img")));
  EXPECT_THAT(text, Not(HasSubstr("http:")));
  EXPECT_THAT(text, Not(HasSubstr("@c")));
  EXPECT_THAT(text, Not(HasSubstr("\n# d")));
  EXPECT_THAT(text, HasSubstr("<code>&#124;&#96;&#42;&#95;&#60;img src=x&#62;"));
}

}  // namespace
}  // namespace assay
