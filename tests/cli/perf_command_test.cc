#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace assay {
namespace {

class PerfCommand : public Program {
 protected:
  // `count` repetitions of two benchmarks, the second one slower by `slowdown`.
  std::string bench(const std::string& name, double slowdown, int count = 12) {
    std::string text = R"({"context": {}, "benchmarks": [)";
    for (int i = 0; i < count; ++i) {
      const double wave = 1 + 0.001 * (i * 7 % 5);
      text += i > 0 ? "," : "";
      text += entry("add", 100 * wave) + "," + entry("matvec|<b>", 900 * wave * slowdown);
    }
    return put(name, text + "]}");
  }

  static std::string entry(const std::string& name, double time) {
    return R"({"name": ")" + name + R"(", "run_name": ")" + name +
           R"(", "run_type": "iteration", "real_time": )" + std::to_string(time) +
           R"(, "time_unit": "ns"})";
  }
};

TEST_F(PerfCommand, OnlyAConfirmedSlowFails) {
  const std::string base = bench("base.json", 1.0);
  EXPECT_EQ(run({"perf", base, base}).exit_code, 0);
  EXPECT_EQ(run({"perf", base, bench("fast.json", 0.9)}).exit_code, 0);
  const Outcome slow = run({"perf", base, bench("slow.json", 1.1)});
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.out, testing::StartsWith("SLOW  1 slower, 0 faster, 1 the same, 0 unsure\n"));
  EXPECT_THAT(slow.out, testing::HasSubstr("+10.0 %"));
  const Outcome few = run({"perf", base, bench("few.json", 1.1, 5)});
  EXPECT_EQ(few.exit_code, 0);
  EXPECT_THAT(few.out, testing::HasSubstr("5 pairs of repetitions are too few"));
}

TEST_F(PerfCommand, ReportsInJsonAndMarkdown) {
  const std::string base = bench("base.json", 1.0);
  const std::string head = bench("slow.json", 1.1);
  EXPECT_THAT(run({"perf", base, head, "--format", "json"}).out,
              testing::AllOf(testing::StartsWith(R"({"verdict":"SLOW","pass":false,)"),
                             testing::HasSubstr(R"({"name":"matvec|<b>","verdict":"SLOW",)")));
  const Outcome github = run({"perf", base, head, "--format", "github"});
  EXPECT_THAT(github.out, testing::StartsWith("### Speed: SLOW\n"));
  EXPECT_THAT(github.out, testing::HasSubstr("| matvec\\|\\<b\\> |"));
}

TEST_F(PerfCommand, RefusesBadInput) {
  const std::string base = bench("base.json", 1.0);
  const std::string other = put("other.json", R"({"benchmarks": [)" + entry("other", 1) + "]}");
  expect_error({"perf", base, other}, other + ": no benchmark in common with " + base +
                                          "; run both with the same --benchmark_filter");
  expect_error({"perf", base, base, "--alpha", "0.5"},
               "--alpha: 0.5 is not above 0 and below 0.5; it is the chance of a false alarm, such "
               "as 0.01");
  expect_error({"perf", base, base, "--min-effect", "nan"},
               "--min-effect: nan is not above 0 and below 1; 0.02 takes less than 2 % for the "
               "same");
  EXPECT_EQ(run({"perf", base}).exit_code, 2);
  EXPECT_EQ(run({"perf", base, folder_ + "/none.json"}).exit_code, 2);
}

}  // namespace
}  // namespace assay
