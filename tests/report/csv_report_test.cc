#include "assay/report/csv_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/report/example.h"

namespace assay {
namespace {

// Scripts read the columns by name: breaks if one were renamed or lost.
TEST(CsvReport, HasTheColumnsOfTheContractFirst) {
  const std::string text = text_of(CsvReport(), example_comparison());
  EXPECT_EQ(text,
            "token_idx,max_abs_diff,mean_abs_diff,ref_team,got_team,checkpoint,n,compared,rms,"
            "rel_l2,cosine,nmse,max_ulp,sign_flips,argmax_ref,argmax_got,regret,kl,topk_overlap,"
            "status,tolerance,evidence\n"
            "7,1.00986405e+18,0,,,layer_3_q,4,4,0,0.0251,1,0,0,0,,,,,,wrong,0.01,failed\n"
            "7,NaN,0,\"ours, \"\"the\"\" "
            "team\",,logits,0,0,0,NaN,1,0,0,0,3,3,0,0.125,,noise,0,partial\n");
}

// Breaks if a script that counts the rows of a checkpoint took a log with gaps for a whole one, or
// if a row had other columns than the header.
TEST(CsvReport, RecordsThatWereNotComparedHaveRowsWithoutFigures) {
  Comparison comparison = incomplete_example();
  comparison.checkpoints[2].name = "a,\"b\"";
  for (const bool floors : {false, true}) {
    if (floors) comparison.results[0].floor = 1e-3;
    const std::string text = text_of(CsvReport(), comparison);
    const std::string tail = floors ? ",,\n" : "\n";
    EXPECT_THAT(text,
                testing::EndsWith("7,,,,,\"a,\"\"b\"\"\",,,,,,,,,,,,,,incomplete,,unproven" + tail +
                                  "8,,,,,layer_3_q,,,,,,,,,,,,,,incomplete,,unproven" + tail +
                                  "8,,,,,\"a,\"\"b\"\"\",,,,,,,,,,,,,,incomplete,,unproven" + tail +
                                  "9,,,,,logits,,,,,,,,,,,,,,incomplete,,excused" + tail));
    std::istringstream lines(text);
    std::string header;
    std::getline(lines, header);
    const auto columns = std::count(header.begin(), header.end(), ',');
    int rows = 0;
    for (std::string row; std::getline(lines, row); ++rows) {
      const bool quoted = row.find('"') != std::string::npos;  // holds a comma of its own
      EXPECT_EQ(std::count(row.begin(), row.end(), ','), columns + (quoted ? 1 : 0)) << row;
    }
    EXPECT_EQ(rows, 6);
  }
}

// A spreadsheet computes a cell that begins so: breaks if a log's names could have one run a
// formula. Numbers stay numbers, names that are numbers among them.
TEST(CsvReport, NoNameIsAFormula) {
  Comparison comparison = example_comparison();
  for (const std::string name : {"=1+1", "+a", "-a", "@SUM(A1)", "=HYPERLINK(\"x\",1)", "-1.5",
                                 "+2", "a=b", "'=a", "-", "-1e5x"}) {
    comparison.teams = {name};
    comparison.results[1].metrics.kl = -0.125;
    const std::string text = text_of(CsvReport(), comparison);
    const std::string cell = text.substr(text.rfind("NaN,0,") + 6);
    const bool formula = name.find_first_of("=+-@") == 0 && name != "-1.5" && name != "+2";
    EXPECT_EQ(cell.starts_with('\'') || cell.starts_with("\"'"), formula || name == "'=a") << cell;
    EXPECT_NE(cell.find(",-0.125,"), std::string::npos) << cell;
  }
  comparison.teams = {"=a,b"};
  EXPECT_NE(text_of(CsvReport(), comparison).find("\"'=a,b\""), std::string::npos);
}

}  // namespace
}  // namespace assay
