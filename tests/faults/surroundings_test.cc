// Where the program runs: environment, home, locale, time zone, and its three standard streams.
#include <fmt/format.h>
#include <locale.h>
#include <sys/resource.h>
#include <time.h>
#include <wctype.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include <regex>

#include "tests/faults/fault_case.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::HasSubstr;

// What each command prints about the same input, with the time of day taken out.
class Surroundings : public FaultCase {
 protected:
  void SetUp() override {
    FaultCase::SetUp();
    copy_golden();
  }

  std::string all_output(const Prepare& prepare = {}) {
    const std::string other = kGolden + std::string("q4_k_m.jsonl");
    std::string all;
    const auto add = [&](const std::vector<std::string>& arguments) {
      const Outcome outcome = run_in(prepare, arguments);
      EXPECT_THAT(outcome.exit_code, testing::AnyOf(0, 1)) << outcome.err;
      all += without_times(outcome.out) + outcome.err;
    };
    for (const char* format : {"table", "json", "csv", "html", "junit", "sarif", "github"}) {
      add({"compare", kLog, other, "--format", format});
    }
    add({"analyze", kLog, "--stats"});
    add({"inspect", kModel});
    add({"inspect", kModel, "--json"});
    add({"tokenize", kModel, "--text", "Iıİi 1,5 GPU haiku"});
    add({"golden", "list", "--folder", path("golden")});
    add({"mutate", "--list"});
    const Outcome outcome = run_in(prepare, {"run", kModel, "--prompt", "GPU haiku", "-n", "8",
                                             "--log", path("log.jsonl"), "--temp", "0.7"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    static const std::regex logged_at(
        R"re(,"ts":"[^"]*")re");  // without an environment there is one
    return all + outcome.out + std::regex_replace(contents(path("log.jsonl")), logged_at, "");
  }

  // Times must be of now, and UTC.
  static std::string without_times(std::string text) {
    constexpr size_t kDate = 10;
    constexpr size_t kWhole = 19;  // 2026-01-31T12:00:00
    for (size_t t = text.find('T'); t != std::string::npos; t = text.find('T', t + 1)) {
      if (t < kDate || t - kDate + kWhole > text.size()) continue;
      std::tm parts{};
      const std::string time = text.substr(t - kDate, kWhole);
      const char* end = strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
      if (end == nullptr || *end != '\0') continue;
      EXPECT_LT(std::abs(std::difftime(timegm(&parts), std::time(nullptr))), 600) << time;
      text.replace(t - kDate, kWhole, "a time of day");
    }
    return text;
  }

  void expect_the_same(const Prepare& prepare) {
    if (usual_.empty()) usual_ = all_output();
    EXPECT_EQ(all_output(prepare), usual_) << "what it prints depends on where it runs";
  }

 private:
  std::string usual_;  // without any `prepare`
};

TEST_F(Surroundings, NoEnvironmentAtAll) {
  expect_the_same([] { clearenv(); });
}

TEST_F(Surroundings, AHomeThatIsMissingOrReadOnly) {
  expect_the_same([] { unsetenv("HOME"); });
  const std::string home = path("home");
  std::filesystem::create_directory(home);
  std::filesystem::permissions(home, std::filesystem::perms(0555));
  expect_the_same([&] {
    setenv("HOME", home.c_str(), 1);
    setenv("XDG_CACHE_HOME", home.c_str(), 1);
    setenv("TMPDIR", home.c_str(), 1);
  });
  EXPECT_TRUE(std::filesystem::is_empty(home));
  expect_the_same([] { setenv("HOME", "/nowhere/at/all", 1); });
}

TEST_F(Surroundings, TimeZones) {
  for (const char* zone : {"Pacific/Kiritimati", "America/St_Johns", "XYZ-14", "no/such zone"}) {
    SCOPED_TRACE(zone);
    expect_the_same([&] { setenv("TZ", zone, 1); });
  }
}

// A log of more files than a process may open until it asks for more.
TEST_F(Surroundings, AFolderOfManyFiles) {
  constexpr int kFiles = 60;
  const std::string log = path("log");
  std::filesystem::create_directory(log);
  for (int i = 0; i < kFiles; ++i) {
    std::ofstream(fmt::format("{}/{}.jsonl", log, i))
        << fmt::format("{{\"assay\":1,\"tokens\":[{}]}}\n", i)
        << R"({"checkpoint":"logits","token_idx":0,"dtype":"f32","shape":[3],"n":3,"values":[1,2,4]})"
        << "\n";
  }
  const auto limit_to = [](rlim_t now, rlim_t most) {
    return [=] {
      const rlimit limit = {now, most};
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(127);
    };
  };
  const std::vector<std::string> compare = {"compare", log, log};
  const Outcome enough = run_in(limit_to(40, 200), compare);
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
  const Outcome few = run_in(limit_to(40, 40), compare);
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr(".jsonl: cannot open: Too many open files; allow more open files, "
                                 "as ulimit -n 65536 does\n"));
}

// The locale of this name in a folder, by $LOCPATH, of whose copy glibc frees nothing.
locale_t locale_in(const std::string& folder, const std::string& name) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler disabled;
#endif
  setenv("LOCPATH", folder.c_str(), 1);
  locale_t made = newlocale(LC_ALL_MASK, name.c_str(), nullptr);
  unsetenv("LOCPATH");
  return made;
}

// A locale that is made for the test; the system need not have it.
class Locale : public Surroundings, public testing::WithParamInterface<const char*> {
 protected:
  std::string name() const { return GetParam() + std::string(".UTF-8"); }

  bool make() const {
    return run_program({"localedef", "-i", GetParam(), "-f", "UTF-8", path(name())}).first == 0;
  }
};

TEST_P(Locale, ChangesNothing) {
  if (!make()) GTEST_SKIP() << "locale: no localedef, or no source of " << name() << " here";
  const auto use = [&] {
    setenv("LOCPATH", folder_.c_str(), 1);
    setenv("LC_ALL", name().c_str(), 1);
    setenv("LANG", name().c_str(), 1);
  };
  // Breaks if the locale were not found, so that nothing were tested.
  locale_t made = locale_in(folder_, name());
  ASSERT_NE(made, nullptr);
  if (GetParam() == std::string("tr_TR")) {
    EXPECT_NE(towupper_l(L'i', made), L'I');
  }
  const locale_t before = uselocale(made);
  char number[16];
  snprintf(number, sizeof(number), "%.1f", 0.5);
  uselocale(before);
  freelocale(made);
  EXPECT_STREQ(number, "0,5");
  expect_the_same(use);
}

INSTANTIATE_TEST_SUITE_P(All, Locale, testing::Values("tr_TR", "de_DE"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(Surroundings, AnUnknownLocale) {
  expect_the_same([] { setenv("LC_ALL", "xx_XX.nonsense", 1); });
}

// What is printed where, and nothing else is.
class Streams : public FaultCase {
 protected:
  void SetUp() override {
    FaultCase::SetUp();
    copy_golden();
  }

  // One of each kind of output.
  std::vector<std::vector<std::string>> commands() const {
    const std::string copy = path("copy.jsonl");
    std::filesystem::copy_file(kLog, copy, std::filesystem::copy_options::overwrite_existing);
    return {{"run", kModel, "--tokens", "1,2,3", "-n", "3", "--log", path("log.jsonl")},
            {"run", kModel, "--tokens", "1,2,3", "-n", "3", "--json"},
            {"tokenize", kModel, "--text", "GPU"},
            {"inspect", kModel},
            {"inspect", kModel, "--json"},
            {"compare", kLog, copy},
            {"compare", kLog, copy, "--format", "html"},
            {"analyze", kLog},
            {"golden", "list", "--folder", path("golden")},
            {"mutate", "--list"},
            {"--help"},
            {"--version"}};
  }
};

TEST_F(Streams, AClosedInputIsAnEmptyOne) {
  const auto closed = [] { close(STDIN_FILENO); };
  expect_one_line(run_in(closed, {"compare", kLog, "-"}), "the log holds no records");
  const Outcome outcome = run_in(closed, {"run", kModel, "--prompt-file", "-", "-n", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << "an empty prompt still has its BOS: " << outcome.err;
  EXPECT_EQ(run_in(closed, {"compare", kLog, kLog}).exit_code, 0);
}

// Breaks if the log became standard output: a model gets the first free number, the log the next.
TEST_F(Streams, AClosedOutputIsToldAndHarmsNoFile) {
  const auto closed = [] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
  };
  const std::string log = path("log.jsonl");
  ASSERT_EQ(run_in({}, commands().front()).exit_code, 0);
  const std::string whole_log = contents(log);
  std::filesystem::remove(log);
  for (const auto& arguments : commands()) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = run_in(closed, arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("assay: standard output: cannot write: "));
  }
  EXPECT_THAT(contents(log), testing::EndsWith("\n"));
  EXPECT_TRUE(whole_log.starts_with(contents(log))) << contents(log);
}

TEST_F(Streams, AFullOutputIsTold) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "system: no /dev/full here";
  for (const auto& arguments : commands()) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome =
        run_in([] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); }, arguments);
    expect_one_line(outcome, "standard output: cannot write: No space left on device");
  }
}

// `assay ... | head`: what it has seen is all that the reader wanted.
TEST_F(Streams, AReaderThatGoesAwayIsNoError) {
  for (const auto& arguments : commands()) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome whole = run_in({}, arguments);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    const Outcome outcome = run_in([&] { dup2(ends[1], STDOUT_FILENO); }, arguments);
    close(ends[1]);
    EXPECT_EQ(outcome.exit_code, whole.exit_code);
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("assay: ")));
  }
}

// Breaks if messages went into the log because standard error is closed and its number was reused.
TEST_F(Streams, NobodyToTellIsNoError) {
  const std::string log = path("log.jsonl");
  ASSERT_EQ(run_in({}, long_run(path("whole.jsonl"))).exit_code, 0);
  const std::string whole = contents(path("whole.jsonl"));
  ASSERT_GT(whole.size(), 1000000U);
  for (const char* what : {"closed", "/dev/full"}) {
    const auto prepare = [&] {
      if (what == std::string("closed")) {
        close(STDIN_FILENO);
        close(STDERR_FILENO);
      } else {
        dup2(open(what, O_WRONLY), STDERR_FILENO);
      }
    };
    EXPECT_EQ(run_in(prepare, {"inspect", kModel}).exit_code, 0);
    EXPECT_EQ(run_in(prepare, {"inspect", "/no/such/file"}).exit_code, 2);
    EXPECT_EQ(run_in(prepare, long_run(log)).exit_code, 0);
    EXPECT_TRUE(contents(log) == whole) << what;
  }
}

}  // namespace
}  // namespace assay
