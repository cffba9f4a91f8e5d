#include "assay/perf/speed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace assay {
namespace {

std::vector<SpeedFigure> read(const std::string& text) {
  const std::string path = testing::TempDir() + "speed_file_test.json";
  std::ofstream(path) << text;
  return read_speed_file(path);
}

TEST(SpeedFile, ReadsWhatRunPrints) {
  const auto figures = read(R"({"tokens":[1],"prefill_tok_s":120.5,"decode_tok_s":31.25})");
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].name, "prefill");
  EXPECT_EQ(figures[0].value, 120.5);
  EXPECT_EQ(figures[1].name, "decode");
  EXPECT_EQ(figures[1].unit, "tokens/s");
  EXPECT_TRUE(figures[1].more_is_faster);
}

TEST(SpeedFile, ReadsTheMedianOfABenchmark) {
  const auto figures = read(R"({"benchmarks":[
      {"name":"a","run_name":"a","run_type":"iteration","real_time":3000,"time_unit":"us"},
      {"name":"a","run_name":"a","run_type":"iteration","real_time":1,"time_unit":"ms"},
      {"name":"a","run_name":"a","run_type":"iteration","real_time":2,"time_unit":"ms"}]})");
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_DOUBLE_EQ(figures[0].value, 2);
  EXPECT_FALSE(figures[0].more_is_faster);
}

// Breaks if the median were the half of a sum that no double holds.
TEST(SpeedFile, ReadsTheMedianOfTheLongestTimes) {
  const auto figures = read(R"({"benchmarks":[
      {"name":"a","run_name":"a","run_type":"iteration","real_time":1.5e308,"time_unit":"ns"},
      {"name":"a","run_name":"a","run_type":"iteration","real_time":1.5e308,"time_unit":"ns"}]})");
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_DOUBLE_EQ(figures[0].value, 1.5e302);
}

TEST(SpeedFile, OtherFilesAreErrors) {
  EXPECT_THROW(read("{}"), Error);
  EXPECT_THROW(read("[]"), Error);
  EXPECT_THROW(read(R"({"decode_tok_s":"fast"})"), Error);
  EXPECT_THROW(read("nonsense"), Error);
}

}  // namespace
}  // namespace assay
