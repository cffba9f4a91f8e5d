// What has become of verdicts since a baseline.
#include "assay/conform/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TableCell cell(Finding finding, double rel_l2, const std::string& cause = {}) {
  TableCell made;
  made.finding = finding;
  made.cause = cause;
  made.checkpoint = "logits";
  made.error = OutputError{rel_l2, 7, 7, 7, {}};
  return made;
}

TableCell without_log(Finding finding) {
  TableCell made;
  made.finding = finding;
  return made;
}

const TableRow kRow = {.name = "rope_theta", .group = "", .title = "", .states = {}, .digest = "1"};

EngineDeclaration engine(const std::string& version) {
  EngineDeclaration mine;
  mine.name = "mine";
  mine.version = version;
  return mine;
}

TablePart baseline_of(const TableCell& before) {
  return {.path = "known.json",
          .runs = {},
          .columns = {{.engine = engine("1"), .rows = {kRow}, .cells = {before}}}};
}

EngineTable table_of(const TableCell& now) {
  EngineTable table;
  table.rows = {kRow};
  table.columns = {{.engine = engine("2"), .cells = {now}}};
  return table;
}

TableCell held(const TableCell& before, const TableCell& now) {
  EngineTable table = table_of(now);
  hold_to(baseline_of(before), table);
  EXPECT_EQ(table.columns[0].cells[0].fails(), table.columns[0].count(Change::kWorse) == 1);
  return table.columns[0].cells[0];
}

Change change(const TableCell& before, const TableCell& now) {
  return *held(before, now).change;
}

// Breaks if a log of one value at each position were as good as one of ninety.
TEST(Baseline, AHonouredFeatureOfFewerValuesIsWorse) {
  const auto of_part = [](int64_t values, int64_t whole) {
    TableCell made = cell(Finding::kHonoured, 1e-7);
    made.error->whole = whole;
    made.error->values = values;
    return made;
  };
  EXPECT_EQ(change(of_part(630, 0), of_part(7, 0)), Change::kWorse);
  EXPECT_EQ(change(of_part(630, 0), of_part(630, 0)), Change::kSame);
  EXPECT_EQ(change(of_part(7, 0), of_part(630, 0)), Change::kSame);
  EXPECT_EQ(change(of_part(672, 7), of_part(0, 7)), Change::kSame) << "sketches show all";
  EXPECT_EQ(change(of_part(-1, 0), of_part(7, 0)), Change::kSame) << "an older file";
}

// Breaks if an engine that logs its logits alone were as good as when it logged all layers.
TEST(Baseline, ASurfaceOfFewerRecordsIsWorse) {
  const auto of_records = [](int64_t records) {
    TableCell made = cell(Finding::kSameBits, 0.0);
    made.error = OutputError{0.0, records, records, records, {}};
    return made;
  };
  EngineTable table = table_of(of_records(48));
  table.kind = EngineTable::Kind::kInvariance;
  hold_to(baseline_of(of_records(192)), table);
  EXPECT_EQ(table.columns[0].cells[0].change, Change::kWorse);
  EXPECT_EQ(table.columns[0].cells[0].before, "same bits, 0 from the tokens alone in 192 records");
  EXPECT_EQ(change(of_records(48), of_records(192)), Change::kSame);
  EXPECT_EQ(change(of_records(0), of_records(48)), Change::kSame) << "an older file";
}

TEST(Baseline, WhatIsAsBadAsItWasIsTheSame) {
  const TableCell before = cell(Finding::kMisread, 0.2, "rope_base");
  EXPECT_EQ(change(before, before), Change::kSame);
  EXPECT_EQ(change(before, cell(Finding::kMisread, 0.29, "rope_base")), Change::kSame);
  EXPECT_EQ(change(without_log(Finding::kCrashed), without_log(Finding::kCrashed)), Change::kSame);
  EXPECT_EQ(change(without_log(Finding::kUnsupported), without_log(Finding::kUnsupported)),
            Change::kSame);
  EXPECT_EQ(change(cell(Finding::kDiffers, kNan), cell(Finding::kDiffers, kNan)), Change::kSame);
  EXPECT_EQ(held(before, before).before, "misread (rope_base), 0.2 from float64");
}

TEST(Baseline, WhatIsWrongInAnotherWayIsWorse) {
  const TableCell before = cell(Finding::kMisread, 0.2, "rope_base");
  for (const TableCell& now :
       {cell(Finding::kMisread, 0.2, "norm_eps"), cell(Finding::kMisread, 0.31, "rope_base"),
        cell(Finding::kMisread, kNan, "rope_base"), cell(Finding::kIgnored, 0.2, "rope_base"),
        cell(Finding::kDiffers, 0.2), without_log(Finding::kCrashed)}) {
    EXPECT_EQ(change(before, now), Change::kWorse) << finding_name(now.finding);
  }
  TableCell fewer = before;
  fewer.error->positions = 1;
  EXPECT_EQ(change(before, fewer), Change::kWorse);
  EXPECT_EQ(change(fewer, before), Change::kSame);
  EXPECT_EQ(change(without_log(Finding::kCrashed), before), Change::kWorse);
  EXPECT_EQ(change(without_log(Finding::kUnsupported), before), Change::kWorse);
  EXPECT_EQ(change(cell(Finding::kDiffers, kNan), cell(Finding::kDiffers, 0.2)), Change::kWorse);
}

TEST(Baseline, WhatWasRightHasToStaySo) {
  const TableCell before = cell(Finding::kHonoured, 1e-6);
  EXPECT_EQ(change(before, cell(Finding::kHonoured, 9e-6)), Change::kSame);
  EXPECT_EQ(change(before, cell(Finding::kDiffers, 0.2)), Change::kWorse);
  EXPECT_EQ(change(before, without_log(Finding::kUnsupported)), Change::kWorse);
  TableCell fewer = before;
  fewer.error->positions = 6;
  EXPECT_EQ(change(before, fewer), Change::kWorse);
  EXPECT_EQ(change(fewer, before), Change::kSame);
  TableCell part = before;
  part.error->whole = 6;
  EXPECT_EQ(change(before, part), Change::kWorse);
  TableCell layer = before;
  layer.checkpoint = "layer_1_output";
  EXPECT_EQ(change(before, layer), Change::kWorse);
}

TEST(Baseline, TheSameBitsAreMoreThanNoise) {
  const TableCell bits = cell(Finding::kSameBits, 0);
  const TableCell noise = cell(Finding::kWithinNoise, 1e-7);
  EXPECT_EQ(change(bits, bits), Change::kSame);
  EXPECT_EQ(change(noise, noise), Change::kSame);
  EXPECT_EQ(change(bits, noise), Change::kWorse);
  EXPECT_EQ(change(noise, bits), Change::kBetter);
  EXPECT_EQ(change(bits, cell(Finding::kDependent, 1e-7)), Change::kWorse);
}

TEST(Baseline, WhatIsRightOrRefusedByNowIsBetter) {
  const TableCell before = cell(Finding::kIgnored, 0.2, "rope_base");
  EXPECT_EQ(change(before, cell(Finding::kHonoured, 1e-6)), Change::kBetter);
  EXPECT_EQ(change(before, without_log(Finding::kUnsupported)), Change::kBetter);
  EXPECT_EQ(change(without_log(Finding::kUnsupported), cell(Finding::kHonoured, 1e-6)),
            Change::kBetter);
}

TEST(Baseline, AnotherCaseExcusesNothing) {
  const TableCell bad = cell(Finding::kIgnored, 0.2, "rope_base");
  TablePart baseline = baseline_of(bad);
  baseline.columns[0].rows[0].digest = "2";
  EngineTable table = table_of(bad);
  hold_to(baseline, table);
  EXPECT_EQ(table.columns[0].cells[0].change, Change::kNew);
  EXPECT_TRUE(table.columns[0].cells[0].fails());
  EXPECT_FALSE(table.pass());
  EngineTable right = table_of(cell(Finding::kHonoured, 1e-6));
  hold_to(baseline, right);
  EXPECT_TRUE(right.pass());
}

void expect_refused(TablePart baseline, const std::string& message) {
  EngineTable table = table_of(cell(Finding::kHonoured, 1e-6));
  try {
    hold_to(baseline, table);
    ADD_FAILURE() << message;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
  }
}

TEST(Baseline, IsOfTheEngineOnce) {
  const TablePart known = baseline_of(cell(Finding::kHonoured, 1e-6));
  TablePart other = known;
  other.columns[0].engine.name = "other";
  expect_refused(other, "known.json: does not have mine");
  TablePart twice = known;
  twice.columns.push_back(known.columns[0]);
  expect_refused(twice, "has mine in two versions");
  TablePart row_twice = known;
  row_twice.columns[0].rows.push_back(kRow);
  row_twice.columns[0].cells.push_back(known.columns[0].cells[0]);
  expect_refused(row_twice, "has 'rope_theta' of mine twice");
}

}  // namespace
}  // namespace assay
