// What the reports say of a record's state, each in its own words, must be what the record says.
#include "assay/report/state_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "assay/report/github_report.h"
#include "assay/report/html_report.h"
#include "assay/report/junit_report.h"
#include "assay/report/table_report.h"
#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// The example's logits part at token 8, which is of the state `state`.
Comparison parted_example(Evidence state) {
  Comparison comparison = example_comparison();
  comparison.gaps = {{0, 8, state, kAfterSplit}, {1, 8, state, kAfterSplit}};
  comparison.split = Split{8, 33, 32, 2};
  comparison.whole_required = state == Evidence::kUnproven;
  comparison.evidence = count_evidence(comparison);
  return comparison;
}

// Breaks if a format called excused what proves nothing, or the other way round.
TEST(StateText, EveryFormatHasTheStateOfTheRecordsAfterASplit) {
  for (const auto& [state, word, other] :
       {std::tuple(Evidence::kUnproven, "are unproven", "are excused"),
        std::tuple(Evidence::kExcused, "are excused", "are unproven")}) {
    const Comparison comparison = parted_example(state);
    for (const std::string& text :
         {text_of(TableReport(), comparison), text_of(GithubReport(), comparison),
          text_of(HtmlReport(), comparison)}) {
      const std::string records = "2 records of the reference from there on ";
      EXPECT_THAT(text, HasSubstr(records + word));
      EXPECT_THAT(text, Not(HasSubstr(records + other)));
    }
  }
}

// Breaks if a checkpoint of which a record is unproven were `noise` here and `incomplete` there.
TEST(StateText, EveryFormatHasOneWordForTheStateOfACheckpoint) {
  const Comparison comparison = parted_example(Evidence::kUnproven);
  EXPECT_EQ(state_name(group_by_checkpoint(comparison)[0]), "wrong");
  EXPECT_EQ(state_name(group_by_checkpoint(comparison)[1]), "unproven");
  EXPECT_THAT(text_of(GithubReport(), comparison),
              testing::ContainsRegex("<code>logits</code>[^\n]* unproven [|]"));
  EXPECT_THAT(
      text_of(HtmlReport(), comparison),
      HasSubstr("\"the two went on with other tokens\",\"unproven\",\"\",\"logits\",\"\"]"));
  EXPECT_THAT(text_of(JunitReport(), comparison),
              HasSubstr("name=\"logits\" time=\"0\">\n      <skipped message=\"unproven at 1 "
                        "token, the first 8: the two went on with other tokens\"/>"));
  Comparison many = comparison;  // the table shows the records of few checkpoints one by one
  many.checkpoints.push_back(parse_checkpoint_name("final_norm"));
  many.order = {0, 2, 1};
  many.results.push_back(many.results[1]);
  many.results.back().checkpoint = 2;
  const std::string table = text_of(TableReport(), many);
  EXPECT_THAT(table, testing::ContainsRegex("\n  logits [^\n]* unproven\n"));
  EXPECT_THAT(table, testing::ContainsRegex("\n  final_norm [^\n]* noise\n"));
}

// Breaks if a record of which nothing could be measured were a row of numbers that are none.
TEST(StateText, ARecordOfAnotherSizeHasItsSizesInItsRow) {
  Comparison comparison = example_comparison();
  RecordResult& q = comparison.results[0];
  q.metrics.compared = 0;
  q.metrics.n = 4096;
  q.metrics.rel_l2 = q.metrics.max_abs = q.metrics.mean_abs = q.metrics.cosine = std::nan("");
  q.failing_metric = Metric::kSize;
  q.failing_value = 4096;
  q.failing_tolerance = 318;
  const std::string sizes = "318 values in the reference, 4096 in the other";
  EXPECT_THAT(text_of(TableReport(), comparison),
              testing::ContainsRegex("layer_3_q +7 +- +- +- +- +- +- +" + sizes + " +wrong\n"));
  EXPECT_THAT(text_of(GithubReport(), comparison),
              HasSubstr("| - | - | - | - | wrong: " + sizes + " |"));
  EXPECT_THAT(text_of(HtmlReport(), comparison),
              HasSubstr("\"wrong\",\"" + sizes + "\",\"layer_3_q\",\"\"]"));
}

TEST(StateText, ExcusedIsTheStateOfACheckpointThatIsNowhereCompared) {
  Comparison comparison = incomplete_example();
  for (Gap& gap : comparison.gaps) gap.evidence = Evidence::kExcused;
  EXPECT_EQ(state_name(group_by_checkpoint(comparison)[1]), "excused");
}

TEST(StateText, TheReasonIsThatOfTheRecords) {
  const Comparison parted = parted_example(Evidence::kUnproven);
  EXPECT_EQ(reason_of_all(parted, Evidence::kUnproven), "the two went on with other tokens");
  EXPECT_EQ(reason_of_all(parted, Evidence::kExcused), "");
  EXPECT_THAT(text_of(HtmlReport(), parted),
              HasSubstr("\"unproven_reason\":\"the two went on with other tokens\""));
  Comparison mixed = incomplete_example();
  mixed.gaps[0].reason = kAfterSplit;
  EXPECT_EQ(reason_of_all(mixed, Evidence::kUnproven), "2 of them: it is missing in the other log");
}

}  // namespace
}  // namespace assay
