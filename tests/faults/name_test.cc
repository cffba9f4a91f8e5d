// Names of files: as long as the system allows and longer, of any characters.
#include <sys/ioctl.h>

#include <algorithm>
#include <climits>

#include "tests/faults/fault_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

class Names : public FaultCase {
 protected:
  // Each command with its inputs and outputs in `folder`, under `name`.
  static std::vector<std::vector<std::string>> commands(const std::string& folder,
                                                        const std::string& name) {
    const std::string place = folder + "/" + name;
    return {{"inspect", place},
            {"tokenize", place, "--text", "GPU"},
            {"run", place, "--tokens", "1,2", "-n", "1"},
            {"run", kModel, "--tokens", "1,2", "-n", "1", "--log", place + "l"},
            {"compare", place + "j", kLog},
            {"compare", kLog, place + "j", "--format", "junit"},
            {"compare", kLog, kLog, "--format", "json", "-o", place + "o"},
            {"analyze", place + "j"},
            {"synth", place + ".json", "-o", place + "g"}};
  }
};

// A folder so deep that a file in it has a path of `length` bytes; `name` is the file's.
std::string deep_folder(const std::string& above, size_t length, const std::string& name) {
  std::string folder = above;
  size_t left = length - above.size() - name.size() - 1;
  while (left > 0) {
    size_t part = std::min<size_t>(left, 251);
    if (left - part == 1) --part;  // "/x" takes two
    folder.append(1, '/').append(part - 1, 'd');
    left -= part;
  }
  return folder;
}

TEST_F(Names, APathAsLongAsTheSystemAllowsWorks) {
  // The longest name that a command makes of it is name.json.
  const std::string folder = deep_folder(folder_, PATH_MAX - 1 - 5, "name");
  std::filesystem::create_directories(folder);
  const std::string place = folder + "/name";
  ASSERT_EQ(place.size(), static_cast<size_t>(PATH_MAX - 1 - 5));
  std::filesystem::copy_file(kModel, place);
  std::filesystem::copy_file(kLog, place + "j");
  std::ofstream(place + ".json") << kConfig;
  for (const auto& arguments : commands(folder, "name")) {
    SCOPED_TRACE(arguments[0]);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  EXPECT_GT(size_of(place + "l"), 0);
  EXPECT_GT(size_of(place + "o"), 0);
  EXPECT_GT(size_of(place + "g"), 0);
}

TEST_F(Names, ANameAsLongAsTheSystemAllowsWorks) {
  const std::string name(NAME_MAX - 6, 'n');
  put(name, contents(kModel));
  put(name + "j", contents(kLog));
  const std::string output = path(std::string(NAME_MAX - 5, 'o') + ".json");
  EXPECT_EQ(run({"inspect", path(name)}).exit_code, 0);
  EXPECT_EQ(run({"compare", kLog, path(name + "j"), "--format", "json", "-o", output}).exit_code,
            0);
  EXPECT_GT(size_of(output), 0);
  const std::string arrays = path(std::string(NAME_MAX - 12, 'o') + ".safetensors");
  EXPECT_EQ(run({"convert", kLog, arrays}).exit_code, 0);
  const std::string log = path(std::string(NAME_MAX, 'l'));
  EXPECT_EQ(run({"run", kModel, "--tokens", "1", "-n", "1", "--log", log}).exit_code, 0);
  EXPECT_GT(size_of(log), 0);
}

TEST_F(Names, ALongerPathIsToldInOneLine) {
  for (const size_t length : {size_t{PATH_MAX}, size_t{5000}, size_t{100000}}) {
    const std::string folder = deep_folder(folder_, length, "name");
    for (const auto& arguments : commands(folder, "name")) {
      SCOPED_TRACE(arguments[0] + std::to_string(length));
      const Outcome outcome = run(arguments);
      expect_one_line(outcome, "File name too long");
      EXPECT_LT(outcome.err.size(), 10000U);
    }
  }
}

TEST_F(Names, ALongerNameIsToldInOneLine) {
  for (const auto& arguments : commands(folder_, std::string(300, 'n'))) {
    expect_one_line(run_in({}, arguments), "File name too long");
  }
  EXPECT_TRUE(files().empty());
}

const std::string kStrangeNames[] = {
    "模型 ñ Ω 😀",
    "e\xcc\x81 and \xc3\xa9",              // composed and not
    "two\nlines\n::error::injected",       //
    "\x1b]0;title\x07\x1b[2Jred\x1b[31m",  // commands of a terminal
    "\xc2\x9b"
    "31m \xe2\x80\xae"
    "reversed",            // C1, and a turn of direction
    "\xff\xfe not UTF-8",  //
    " leading and trailing ",
    "-o",
    "'\"$(reboot)`&;|<>*?",
    "%s%n%1$s{}{0}",
};

TEST_F(Names, OfAnyCharactersWorkAndCommandNoTerminal) {
  for (const std::string& name : kStrangeNames) {
    SCOPED_TRACE(testing::PrintToString(name));
    const std::string place = put(name, contents(kModel));
    put(name + "j", contents(kLog));
    put(name + ".json", kConfig);
    auto all = commands(folder_, name);
    for (const char* format : {"table", "csv", "json", "html", "junit", "sarif", "github"}) {
      all.push_back({"compare", place + "j", place + "j", "--format", format});
    }
    for (const auto& arguments : all) {
      SCOPED_TRACE(testing::PrintToString(arguments));
      const Outcome outcome = run(arguments);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      expect_harmless(outcome.err);
      // For sha256sum to read, synth prints a name to what is no terminal as it is.
      if (arguments[0] != "synth") expect_harmless(outcome.out);
    }
    for (const auto& arguments : commands(folder_, name + "missing")) {
      const Outcome outcome = run(arguments);
      if (outcome.exit_code == 0) continue;  // it only writes there
      expect_one_line(outcome);
      expect_harmless(outcome.err);
    }
    EXPECT_GT(size_of(place + "l"), 0);
    EXPECT_GT(size_of(place + "o"), 0);
    EXPECT_GT(size_of(place + "g"), 0);
  }
}

// The same where standard output is a terminal, for text that a model generates and for a name that
// synth prints.
TEST_F(Names, OnATerminalNothingCommandsIt) {
  put("\x1b]0;x.json", kConfig);
  // A vocabulary of which each piece is a command of a terminal.
  testing_support::TinyModel model;
  model.texts["general.name"] = "\x1b]0;name\x07";
  model.texts["tokenizer.ggml.model"] = "llama";
  model.vocabulary = {"\x1b[31m", "\x1b[32m", "\x1b]0;t\x07",
                      "\xc2\x9b"
                      "5m",
                      "\x08\x7f"};
  const std::string hostile = model.write(path("hostile.gguf"));
  const std::vector<std::vector<std::string>> all = {
      {"run", hostile, "--tokens", "1,2", "-n", "8", "--ignore-eos"},
      {"inspect", hostile},
      {"synth", path("\x1b]0;x.json"), "-o", path("\x1b]0;x.gguf")}};
  for (const auto& arguments : all) {
    SCOPED_TRACE(arguments[0]);
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    ASSERT_EQ(grantpt(terminal) | unlockpt(terminal), 0);
    const int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    const pid_t child = start(arguments, [&] {
      dup2(slave, STDOUT_FILENO);
      setenv("NO_COLOR", "1", 1);
    });
    close(slave);
    std::string shown;
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(terminal, piece, sizeof(piece))) > 0;) {
      shown.append(piece, static_cast<size_t>(got));
    }
    close(terminal);
    EXPECT_EQ(finish(child).exit_code, 0) << shown;
    std::erase(shown, '\r');
    expect_harmless(shown);
    EXPECT_THAT(shown, HasSubstr("\\x")) << "it was not shown at all";
  }
}

}  // namespace
}  // namespace assay
