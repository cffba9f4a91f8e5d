// A file is cut, or another one put in its place, while the program has it in use: as it enters or
// leaves a system call, from the one that opens the file on, so no timing is left to chance. All of
// these moments are tried where they are few, else some that are spread over them.
#include <sys/ptrace.h>

#include "tests/faults/fault_case.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

constexpr int kFew = 40;     // moments, which are all tried
constexpr int kMoments = 8;  // that are tried of more

enum class Change { kEmptied, kHalved, kReplaced, kRemoved };

struct Case {
  std::string name;
  std::vector<std::string> arguments;  // FILE is the file that is changed, of a golden in FOLDER
  std::string source;                  // what the file is at first
  std::string other;                   // what replaces it
};

const std::string kOtherModel = std::string(kGolden) + "tinyllama-q4_k_m.gguf";
const std::string kOtherTokenizer = source_path("golden/phi3/phi3-q8_0.gguf");
const std::string kOtherLog = std::string(kGolden) + "q8_0.jsonl";

const std::string kOut = "out.npz";

class ChangedFile : public FaultCase, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    FaultCase::SetUp();
    file_ =
        path("golden/tinyllama/") + std::filesystem::path(GetParam().source).filename().string();
    copy_golden();
    arguments_ = GetParam().arguments;
    for (std::string& argument : arguments_) {
      if (argument == "FILE") argument = file_;
      if (argument == "OUT") argument = path(kOut);
      if (argument == "FOLDER") argument = path("golden");
    }
  }

  void put_back() {
    std::filesystem::remove(path(kOut));
    std::filesystem::remove(file_);
    std::filesystem::copy_file(GetParam().source, file_);
    std::filesystem::copy_file(GetParam().other, path("other"),
                               std::filesystem::copy_options::overwrite_existing);
  }

  void apply(Change change) const {
    switch (change) {
      case Change::kEmptied:
        std::filesystem::resize_file(file_, 0);
        break;
      case Change::kHalved:
        std::filesystem::resize_file(file_, std::filesystem::file_size(file_) / 2);
        break;
      case Change::kReplaced:
        std::filesystem::rename(path("other"), file_);
        break;
      case Change::kRemoved:
        std::filesystem::remove(file_);
    }
  }

  // Calls at(n) when the program enters or leaves its n-th system call, as long as it says true.
  Outcome traced(const std::function<bool(int n, pid_t child)>& at) {
    const pid_t child = start(arguments_, [] {
      use_one_processor();
      setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // a leak cannot be looked for in what is traced
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(126);
    });
    int status = 0;
    waitpid(child, &status, 0);  // it stops before its first instruction
    if (!WIFSTOPPED(status)) return outcome_of(status);
    ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    int64_t signal = 0;
    for (int n = 0;;) {
      ptrace(PTRACE_SYSCALL, child, nullptr, signal);
      waitpid(child, &status, 0);
      if (!WIFSTOPPED(status)) return outcome_of(status);
      const bool call = WSTOPSIG(status) == (SIGTRAP | 0x80);
      signal = call ? 0 : WSTOPSIG(status);
      if (call && !at(n++, child)) {
        ptrace(PTRACE_DETACH, child, nullptr, 0);
        return finish(child);
      }
    }
  }

  // All that the program says and writes, but for how fast it was.
  std::string result_of(const Outcome& outcome) const {
    std::string result = std::to_string(outcome.exit_code) + "\n" + outcome.out;
    std::istringstream lines(outcome.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("tok/s") == std::string::npos) result += line + "\n";
    }
    const std::string out = path(kOut);
    return std::filesystem::exists(out) ? result + contents(out) : result;
  }

  bool has_open(pid_t child) const {
    for (const char* list : {"/fd", "/map_files"}) {
      std::error_code none;
      const std::string folder = "/proc/" + std::to_string(child) + list;
      for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
        if (std::filesystem::read_symlink(entry, none) == file_) return true;
      }
    }
    return false;
  }

  std::string file_;
  std::vector<std::string> arguments_;
};

TEST_P(ChangedFile, IsToldOrDoesNotMatter) {
  int first = -1;
  int n_calls = 0;
  const Outcome whole = traced([&](int n, pid_t child) {
    if (first < 0 && has_open(child)) first = n;
    n_calls = n + 1;
    return true;
  });
  if (whole.exit_code == 126) GTEST_SKIP() << "system: no process may trace another";
  ASSERT_THAT(whole.exit_code, testing::AnyOf(0, 1)) << whole.err;
  ASSERT_GE(first, 0) << "it does not open the file";
  const std::string of_file = result_of(whole);
  put_back();
  apply(Change::kReplaced);
  const std::string of_other = result_of(run_in(use_one_processor, arguments_));
  ASSERT_NE(of_file, of_other) << "it does not tell the two files apart";
  int told = 0;
  const int moments = n_calls - first;
  const int step = moments <= kFew ? 1 : (moments + kMoments - 1) / kMoments;
  for (const Change change :
       {Change::kEmptied, Change::kHalved, Change::kReplaced, Change::kRemoved}) {
    for (int when = first; when < n_calls; when += step) {
      SCOPED_TRACE(testing::Message() << "change " << static_cast<int>(change) << " at " << when);
      put_back();
      const Outcome outcome = traced([&](int n, pid_t) {
        if (n == when) apply(change);
        return n < when;
      });
      if (outcome.exit_code == 2) {
        ++told;
        expect_one_line(outcome, file_);
        continue;
      }
      ASSERT_THAT(outcome.exit_code, testing::AnyOf(0, 1)) << outcome.err;
      const std::string result = result_of(outcome);
      if (result == of_file) continue;
      if (change == Change::kReplaced) {
        EXPECT_TRUE(result == of_other) << "it is of neither file: " << outcome.out << outcome.err;
        continue;
      }
      // A log may seem shorter.
      EXPECT_THAT(outcome.err, HasSubstr(file_))
          << "the message does not name the file that was cut";
      ++told;
    }
  }
  EXPECT_GT(told, 0) << "no change was in time";
}

const Case kCases[] = {
    {"inspect", {"inspect", "FILE"}, kModel, kOtherModel},
    {"inspect_json", {"inspect", "FILE", "--json"}, kModel, kOtherModel},
    {"tokenize", {"tokenize", "FILE", "--text", "GPU haiku with word"}, kModel, kOtherTokenizer},
    {"run", {"run", "FILE", "--tokens", "1,2,3", "-n", "3", "--threads", "1"}, kModel, kOtherModel},
    {"analyze", {"analyze", "FILE"}, kLog, kOtherLog},
    {"compare_ref", {"compare", "FILE", kLog, "--format", "csv"}, kLog, kOtherLog},
    {"compare_got", {"compare", kLog, "FILE", "--format", "csv"}, kLog, kOtherLog},
    {"compare_model",
     {"compare", kLog, kOtherLog, "--format", "csv", "--model", "FILE"},
     kModel,
     kOtherModel},
    {"verify_log", {"golden", "verify", "tinyllama", "--folder", "FOLDER"}, kLog, kOtherLog},
    {"verify_model", {"golden", "verify", "tinyllama", "--folder", "FOLDER"}, kModel, kOtherModel},
    {"convert", {"convert", "FILE", "OUT"}, kLog, kOtherLog},
};

INSTANTIATE_TEST_SUITE_P(All, ChangedFile, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace assay
