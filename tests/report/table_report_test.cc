#include "assay/report/table_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string table(const Comparison& comparison, const TextStyle& style) {
  ReportContext context = example_context();
  context.style = style;
  return text_of(TableReport(), comparison, context);
}

TEST(TableReport, SaysFirstWhatMattersMost) {
  const std::string text = table(example_comparison(), {120, false});
  EXPECT_THAT(text, testing::StartsWith(
                        "DIVERGED  wrong: the error jumps beyond the tolerance, or is as large as "
                        "the values; 2 records of the reference: 1 partial, 1 failed, argmax 1 of "
                        "1\n"));
  EXPECT_THAT(text, HasSubstr("\n  first divergence  layer_3_q at token 7: rel_l2 0.0251 is over "
                              "0.01\n"));
  EXPECT_THAT(text, HasSubstr("would pass with   rel_l2 0.0251\n"));
  EXPECT_THAT(text, HasSubstr("heap_metadata in the reference: 1 value at token 7"));
  EXPECT_THAT(text, HasSubstr("assay compare ref.jsonl got.jsonl --format json\n"));
}

TEST(TableReport, DriftOverTokensHasALineOfItsOwn) {
  Comparison comparison = example_comparison();
  comparison.drift.sentences = {"error is stable, 1 at layer 0", "error grows from 1 at token 0"};
  EXPECT_THAT(table(comparison, {}),
              HasSubstr("\n  drift             error is stable, 1 at layer 0;\n"
                        "                    error grows from 1 at token 0\n"));
}

// Breaks if a checkpoint were blamed that made nothing of its error, or whose own is not known.
TEST(TableReport, ShowsWhereTheErrorWasMade) {
  Comparison comparison = example_comparison();
  const auto source = [](const char* name, std::optional<double> own, bool partial) {
    ErrorSource made;
    made.checkpoint = parse_checkpoint_name(name);
    made.token_idx = 7;
    made.rel_l2 = 0.5;
    made.own = own;
    if (own) made.inherited = 0.4;
    made.inputs_are_partial = partial;
    return made;
  };
  comparison.error_sources = {source("layer_3_q", 0.25, false), source("layer_3_k", {}, true),
                              source("layer_3_v", {}, false), source("logits", {}, true)};
  EXPECT_THAT(table(comparison, {}),
              HasSubstr("\n  error made at     layer_3_q at token 7: 0.25 of its own, 0.4 came in\n"
                        "  error made at     not known of layer_3_k and 1 other: log the judged "
                        "engine with --values all to tell what came in\n"));
  for (const double none : {0.0, 0.004}) {
    comparison.error_sources = {source("layer_3_q", none, false), source("logits", 0, false)};
    EXPECT_THAT(table(comparison, {}), Not(HasSubstr("error made at"))) << none;
  }
}

// Breaks if colours went into files and logs of CI.
TEST(TableReport, ColoursOnlyWhereTheyAreUnderstood) {
  EXPECT_THAT(table(example_comparison(), {120, false}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table(example_comparison(), {120, true}), HasSubstr("\x1b[31mDIVERGED\x1b[0m"));
}

TEST(TableReport, LeavesOutColumnsThatDoNotFit) {
  for (const int width : {40, 60, 80, 120}) {
    std::istringstream text(table(example_comparison(), {width, false}));
    bool in_table = false;
    for (std::string row; std::getline(text, row);) {
      if (row.empty()) in_table = !in_table;
      if (in_table && !row.starts_with("  too narrow here for: ")) {
        EXPECT_LE(row.size(), static_cast<size_t>(width)) << row;
        const bool last_column = row.empty() || row.ends_with("status") || row.ends_with("wrong") ||
                                 row.ends_with("noise");
        EXPECT_TRUE(last_column) << row;
      }
    }
  }
}

// Breaks if a name in a log could send commands to the terminal.
TEST(TableReport, NamesCannotCommandTheTerminal) {
  Comparison comparison = example_comparison();
  comparison.checkpoints[0].name = comparison.first_divergence->checkpoint.name = "\x1b[2Jx";
  EXPECT_THAT(table(comparison, {120, false}), Not(HasSubstr("\x1b")));
}

TEST(TableReport, ManyCheckpointsShowTheWorstOfEachAndFailuresFirst) {
  Comparison comparison;
  for (int layer = 0; layer < 100; ++layer) {
    comparison.checkpoints.push_back(
        parse_checkpoint_name("layer_" + std::to_string(layer) + "_output"));
    comparison.order.push_back(layer);
    for (int token = 0; token < 3; ++token) {
      RecordResult result;
      result.checkpoint = layer;
      result.token_idx = token;
      result.metrics.rel_l2 = 1e-6 * token;
      result.status = Verdict::kNoise;
      result.evidence = layer == 90 ? Evidence::kFailed : Evidence::kWhole;
      comparison.results.push_back(result);
    }
  }
  const std::string text = table(comparison, {120, false});
  EXPECT_THAT(text, HasSubstr("layer_90_output"));
  EXPECT_THAT(text, HasSubstr("worst at"));
  EXPECT_THAT(text, HasSubstr("... and 60 more\n"));
}

// Breaks if a comparison of half a log read like one in parity, or hid what is missing.
TEST(TableReport, WhatIsUnprovenIsListedWithItsReason) {
  const std::string text = table(incomplete_example(), {120, false});
  EXPECT_THAT(text, testing::StartsWith(
                        "INCOMPLETE  nothing failed, but 3 records of the reference were not "
                        "shown; 6 records of the reference: 1 whole, 1 partial, 1 excused, 3 "
                        "unproven, argmax 1 of 1 (1 excused)\n"
                        "  unproven          layer_3_q at 1 token, first 8: it is missing in the "
                        "other log\n"
                        "  unproven          layer_4_q at 2 tokens, first 7: it is missing in the "
                        "other log\n"));
  EXPECT_THAT(text, Not(HasSubstr("first divergence")));
  EXPECT_THAT(table(incomplete_example(), {120, true}), HasSubstr("\x1b[33mINCOMPLETE\x1b[0m"));
  EXPECT_THAT(table(example_comparison(), {120, false}), Not(HasSubstr("  unproven  ")));
}

TEST(TableReport, ManyUnprovenCheckpointsAreCounted) {
  Comparison comparison = incomplete_example();
  for (int layer = 5; layer < 20; ++layer) {
    const auto id = static_cast<int32_t>(comparison.checkpoints.size());
    comparison.checkpoints.push_back(
        parse_checkpoint_name("layer_" + std::to_string(layer) + "_q"));
    comparison.order.push_back(id);
    comparison.gaps.push_back({id, 7, Evidence::kUnproven, kMissing});
  }
  const std::string text = table(comparison, {120, false});
  EXPECT_THAT(text, HasSubstr("layer_10_q at 1 token"));
  EXPECT_THAT(text, Not(HasSubstr("layer_11_q")));
  EXPECT_THAT(text, HasSubstr("\n                    ... and 9 more\n"));
}

}  // namespace
}  // namespace assay
