// The address space is limited at levels from what the program needs to start at all, to enough.
#include <sys/resource.h>

#include "tests/faults/fault_case.h"

namespace assay {
namespace {

constexpr int kLevels = 50;
constexpr int64_t kStep = 32 << 10;   // how finely limits are searched for
constexpr int64_t kMost = 4LL << 30;  // enough for everything here

struct MemoryCase {
  std::string name;
  std::vector<std::string> arguments;  // LOG is a log that is written
};

class LimitedMemory : public FaultCase, public testing::WithParamInterface<MemoryCase> {
 protected:
  Outcome run_within(int64_t bytes, const std::vector<std::string>& arguments) {
    return run_in(
        [&] {
          use_one_processor();  // the stacks of more threads would take most of the space
          const rlimit limit = {static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
          setrlimit(RLIMIT_AS, &limit);
        },
        arguments);
  }

  // The least limit, to within kStep, at which the program ends with `exit_code`.
  int64_t least_for(const std::vector<std::string>& arguments, int exit_code, int64_t low) {
    int64_t high = kMost;
    while (high - low > kStep) {
      const int64_t middle = low + (high - low) / 2;
      (run_within(middle, arguments).exit_code == exit_code ? high : low) = middle;
    }
    return high;
  }
};

TEST_P(LimitedMemory, IsEnoughOrToldInOneLine) {
  if (*ASSAY_SANITIZE != '\0') GTEST_SKIP() << "sanitizer: needs all of the address space itself";
  std::vector<std::string> arguments = GetParam().arguments;
  for (std::string& argument : arguments) {
    if (argument == "LOG") argument = path("log.jsonl");
  }
  const Outcome whole = run_within(kMost, arguments);
  const std::string whole_log = contents(path("log.jsonl"));
  ASSERT_THAT(whole.exit_code, testing::AnyOf(0, 1)) << whole.err;
  // Below this the system cannot even load the program and its libraries.
  const int64_t least = least_for({"--version"}, 0, 0);
  const int64_t enough = least_for(arguments, whole.exit_code, least);
  ASSERT_GT(enough, least);
  int refused = 0;
  for (int level = 0; level <= kLevels; ++level) {
    const int64_t limit = least + (enough + kStep - least) * level / kLevels;
    SCOPED_TRACE(limit);
    std::filesystem::remove(path("log.jsonl"));
    const Outcome outcome = run_within(limit, arguments);
    const std::string log = contents(path("log.jsonl"));
    EXPECT_TRUE(whole_log.starts_with(log));
    EXPECT_TRUE(log.empty() || log.back() == '\n') << "the log is torn";
    if (outcome.exit_code == whole.exit_code) {
      // A verdict stands, whether or not there is room to look for its cause.
      const bool searched = outcome.out.find("too little memory") == std::string::npos;
      const auto judged = [&](const std::string& out) {
        return searched ? out : out.substr(0, out.find("\"causes\""));
      };
      EXPECT_EQ(judged(outcome.out), judged(whole.out));
      EXPECT_EQ(log, whole_log);
    } else {
      ++refused;
      expect_one_line(outcome, "; ");  // after which it says what to do
      EXPECT_THAT(outcome.err, testing::ContainsRegex("memory|cannot start .* threads"));
    }
  }
  EXPECT_GT(refused, 0);
}

const MemoryCase kMemoryCases[] = {
    {"run",
     {"run", kModel, "--tokens", "1,2,3", "-n", "4", "--log", "LOG", "--checkpoints", "ops"}},
    {"inspect", {"inspect", kModel, "--json"}},
    {"compare", {"compare", kLog, kLog, "--format", "json"}},
    {"causes",
     {"compare", kLog, kGolden + std::string("q8_0.jsonl"), "--format", "json", "--model", kModel}},
    {"analyze", {"analyze", kLog, "--json"}},
};

INSTANTIATE_TEST_SUITE_P(All, LimitedMemory, testing::ValuesIn(kMemoryCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace assay
