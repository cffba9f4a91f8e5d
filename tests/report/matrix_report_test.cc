#include "assay/report/matrix_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/report/example.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One row: a reference, and the runs of so many engines, of which the last has diverged.
RunMatrix matrix_of(int engines) {
  RunMatrix matrix;
  matrix.pass = false;
  matrix.engines = {"oracle"};
  MatrixRow row{"tinyllama", "F32", "haiku", "oracle.jsonl", {}};
  MatrixCell reference{"oracle", "oracle.jsonl", {}, {}, {}, true, {}};
  row.cells = {reference, reference};
  for (int i = 0; i < engines; ++i) {
    const std::string engine = "engine_number_" + std::to_string(i);
    RunPair pair;
    pair.pass = i + 1 < engines;
    pair.verdict = pair.pass ? Verdict::kNoise : Verdict::kWrong;
    pair.worst_rel_l2 = pair.pass ? 1e-7 : 4.67;
    if (!pair.pass) {
      pair.first_divergence =
          FirstDivergence{parse_checkpoint_name("layer_1_q"), 3, Metric::kRelL2, 4.67, 1e-6};
    }
    matrix.engines.push_back(engine);
    row.cells.push_back({engine, engine + ".jsonl", "oracle.jsonl", pair, {}, false, {}});
  }
  matrix.rows = {row};
  return matrix;
}

std::string table(const RunMatrix& matrix, const TextStyle& style) {
  return text_of(*find_report(matrix_reports(), "table"), matrix, {.style = style});
}

TEST(MatrixReport, HasAColumnForEachEngineWhereThereIsRoom) {
  const std::string text = table(matrix_of(8), {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(text, HasSubstr("engine_number_" + std::to_string(i)));
  }
  EXPECT_THAT(text, HasSubstr("wrong 4.67 layer_1_q at 3\n"));
}

// Breaks if a pass of ten values each reads like one of all.
TEST(MatrixReport, SaysWhatAPassLeavesOpen) {
  RunMatrix matrix = matrix_of(2);
  RunPair& pair = *matrix.rows[0].cells[2].pair;
  pair.compared = 16;
  pair.partial = 12;
  EXPECT_THAT(table(matrix, {}), HasSubstr("noise 1e-07 (12 of 16 records partial)"));
  pair.without_argmax = 4;
  EXPECT_THAT(table(matrix, {}),
              HasSubstr("noise 1e-07 (12 of 16 records partial, argmax not known at 4 tokens)"));
  EXPECT_THAT(text_of(*find_report(matrix_reports(), "json"), matrix, {}),
              HasSubstr(R"("partial":12,"without_argmax":4)"));
}

// Breaks if the engine that diverged, or any other, could be missing from the table.
TEST(MatrixReport, HasALineForEachRunWhereThereIsNot) {
  const std::string text = table(matrix_of(3), {80, false});
  EXPECT_EQ(text,
            "  model      type  prompt           engine                    verdict\n"
            "  tinyllama   F32   haiku           oracle                  reference\n"
            "  tinyllama   F32   haiku  engine_number_0                noise 1e-07\n"
            "  tinyllama   F32   haiku  engine_number_1                noise 1e-07\n"
            "  tinyllama   F32   haiku  engine_number_2  wrong 4.67 layer_1_q at 3\n");
  EXPECT_THAT(table(matrix_of(3), {20, true}),
              AllOf(HasSubstr("engine_number_0"), HasSubstr("\x1b[31m  tinyllama   F32   haiku  "
                                                            "engine_number_2")));
}

TEST(MatrixReport, CountsTheLogsThatAreLeftOut) {
  RunMatrix matrix = matrix_of(1);
  matrix.left_out = {"a.jsonl"};
  EXPECT_THAT(table(matrix, {}),
              HasSubstr("1 log without a header that names its model was left out: a.jsonl\n"));
  matrix.left_out.push_back("b.jsonl");
  EXPECT_THAT(table(matrix, {}), HasSubstr("2 logs without a header that names their model were "
                                           "left out: a.jsonl, ...\n"));
}

// Breaks if a log that holds nothing were missing from the report.
TEST(MatrixReport, NamesTheLogsThatCannotBeRead) {
  RunMatrix matrix = matrix_of(1);
  matrix.unreadable = {{"a.jsonl", Error("the log holds no records", "a.jsonl")}};
  EXPECT_THAT(table(matrix, {}), testing::EndsWith("\n  a.jsonl: the log holds no records\n"));
  EXPECT_THAT(text_of(*find_report(matrix_reports(), "json"), matrix),
              HasSubstr(R"({"log":"a.jsonl","problem":"a.jsonl: the log holds no records"})"));
}

}  // namespace
}  // namespace assay
