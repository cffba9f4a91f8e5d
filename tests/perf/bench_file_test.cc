#include "assay/perf/bench_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

class BenchFileTest : public LogFiles {
 protected:
  BenchFile parse(const std::string& text) { return read_bench_file(put("bench.json", text)); }

  void expect_error(const std::string& text, const std::string& part) {
    try {
      parse(text);
      ADD_FAILURE() << "read: " << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
      EXPECT_THAT(error.what(), testing::HasSubstr("bench.json"));
    }
  }
};

// As Google Benchmark 1.7 writes it.
TEST_F(BenchFileTest, TakesRepetitionsInOrderAndNoAggregates) {
  const BenchFile bench = parse(R"({"context": {"num_cpus": 2}, "benchmarks": [
    {"name": "matvec/repeats:2", "run_name": "matvec/repeats:2", "run_type": "iteration",
     "repetition_index": 0, "real_time": 2.5, "cpu_time": 2.4, "time_unit": "us"},
    {"name": "matvec/repeats:2", "run_name": "matvec/repeats:2", "run_type": "iteration",
     "repetition_index": 1, "real_time": 1.5, "cpu_time": 1.4, "time_unit": "us"},
    {"name": "matvec/repeats:2_mean", "run_name": "matvec/repeats:2", "run_type": "aggregate",
     "aggregate_name": "mean", "real_time": 2.0, "cpu_time": 1.9, "time_unit": "us"}]})");
  ASSERT_EQ(bench.times.size(), 1U);
  EXPECT_THAT(bench.times.at("matvec/repeats:2"), testing::ElementsAre(2500.0, 1500.0));
}

TEST_F(BenchFileTest, RefusesWhatIsNoResult) {
  expect_error("", "not valid JSON");
  expect_error(R"({"benchmarks": [{"na)", "not valid JSON");
  expect_error("[]", "'benchmarks' is missing or not an array");
  expect_error(R"({"benchmarks": 3})", "'benchmarks' is missing or not an array");
  expect_error(R"({"benchmarks": []})", "no repetition");
  expect_error(R"({"benchmarks": [3]})", "not an object");
  expect_error(R"({"benchmarks": [{"real_time": 1, "time_unit": "ns"}]})", "no name");
  const std::string start = R"({"benchmarks": [{"name": "add", )";
  expect_error(start + R"("time_unit": "ns"}]})",
               "benchmark 'add': 'real_time' is missing or not a number");
  expect_error(start + R"("real_time": 0, "time_unit": "ns"}]})", "which is not a time");
  expect_error(start + R"("real_time": 1, "real_time": 9, "time_unit": "ns"}]})",
               "has the key 'real_time' twice");
  expect_error(start + R"("real_time": 1, "time_unit": "ns", "time_unit": "s"}]})",
               "has the key 'time_unit' twice");
  expect_error(start + R"("real_time": 1, "time_unit": "ns"}], "benchmarks": []})",
               "has the key 'benchmarks' twice");
  expect_error(start + R"("real_time": -1, "time_unit": "ns"}]})", "which is not a time");
  expect_error(start + R"("real_time": 1e308, "time_unit": "s"}]})", "which is not a time");
  expect_error(start + R"("real_time": 1, "time_unit": "years"}]})", "time_unit 'years'");
  expect_error(start + R"("real_time": 1, "error_occurred": true, "error_message": "no GPU"}]})",
               "failed: no GPU");
  expect_error(start + R"("real_time": 1, "error_occurred": 1}]})", "is neither true nor false");
  expect_error(start + R"("real_time": 1, "skipped": "yes"}]})", "is neither true nor false");
  expect_error(start + R"("real_time": 1, "error_occurred": true}]})",
               "benchmark 'add': failed and does not say why");
  expect_error(start + R"("real_time": NaN, "time_unit": "ns"}]})", "not valid JSON");
  expect_error(start + R"("real_time": "NaN", "time_unit": "ns"}]})",
               "'real_time' is missing or not a number");
  for (const char* threads : {"0", "-1", "1.5", "null", R"("8")"}) {
    expect_error(start + R"("real_time": 1, "time_unit": "ns", "threads": )" + threads + "}]}",
                 "'threads' is not a number of threads");
  }
  const std::string on_one = start + R"("real_time": 1, "time_unit": "ns", "threads": 1}, )";
  for (const char* other : {R"("threads": 8, )", ""}) {
    expect_error(on_one + R"({"name": "add", )" + other + R"("real_time": 1, "time_unit": "ns"}]})",
                 "benchmark 'add': its repetitions ran on different numbers of threads");
  }
  expect_error(std::string(10000, '['), "not valid JSON");
}

// The interval of n times holds n (n + 1) / 2 numbers.
TEST_F(BenchFileTest, RefusesMoreRepetitionsThanMemoryHolds) {
  std::string text = R"({"benchmarks": [)";
  for (size_t i = 0; i <= kMaxRepetitions; ++i) {
    text += std::string(i > 0 ? "," : "") + R"({"name": "add", "real_time": 1, "time_unit": "ns"})";
  }
  expect_error(text + "]}", "benchmark 'add': has more than 2000 repetitions");
}

TEST_F(BenchFileTest, KeepsWhatWasSkippedAndTheContext) {
  const BenchFile bench =
      parse(R"({"context": {"num_cpus": 2, "processor": "EPYC", "mhz_per_cpu": 2400.5,
    "load_avg": [1.5], "caches": []}, "benchmarks": [
    {"name": "gpu", "skipped": true, "skip_message": "no GPU"},
    {"name": "add", "real_time": 1, "time_unit": "ns", "threads": 2}]})");
  EXPECT_EQ(bench.times.size(), 1U);
  EXPECT_EQ(bench.threads, (std::map<std::string, int64_t>{{"add", 2}}));
  EXPECT_EQ(bench.context,
            (std::map<std::string, std::string>{
                {"mhz_per_cpu", "2400.5"}, {"num_cpus", "2"}, {"processor", "EPYC"}}));
  EXPECT_EQ(bench.skipped, (std::map<std::string, std::string>{{"gpu", "no GPU"}}));
}

}  // namespace
}  // namespace assay
