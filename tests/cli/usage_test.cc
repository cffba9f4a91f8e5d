#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "tests/cli/program.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Usage : public Program {};

TEST_F(Usage, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(run({"--help"}).exit_code, 0);
  EXPECT_THAT(run({"--help"}).out, HasSubstr("compare"));
  EXPECT_THAT(run({"--version"}).out, StartsWith("assay "));
  EXPECT_EQ(run({"compare", "--help"}).exit_code, 0);
  EXPECT_THAT(run({"compare", "--help"}).out, HasSubstr("--quarantine"));
}

// Breaks if help kept back what surprises: what is logged, what takes minutes, what is replaced.
TEST_F(Usage, HelpSaysWhatSurprises) {
  const auto help = [&](const char* command) {
    std::string text = run({command, "--help"}).out;
    std::erase(text, '\n');
    return std::regex_replace(text, std::regex(" +"), " ");
  };
  EXPECT_THAT(help("run"), HasSubstr("logits where only ORCH_LOG_FILE asks for a log"));
  EXPECT_THAT(help("mutate"), HasSubstr("which takes minutes"));
  EXPECT_THAT(help("conform"), HasSubstr("its logs go to WORK/logs/command"));
  EXPECT_THAT(help("perf"), HasSubstr("any other Google Benchmark"));
}

// Breaks if help promised several values after a flag that takes one: the next is an argument.
TEST_F(Usage, HelpShowsHowAFlagTakesSeveralValues) {
  const std::string help = run({"conform", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--features TEXT, repeatable"));
  EXPECT_THAT(help, HasSubstr("ENGINE TEXT ..."));
  EXPECT_THAT(help, Not(HasSubstr("--features TEXT ...")));
  EXPECT_THAT(run({"mutate", "--help"}).out + run({"matrix", "--help"}).out,
              HasSubstr("--map TEXT, repeatable"));
}

// Breaks if bad usage had another code, as CLI11's own 100 and more.
TEST_F(Usage, MistakesAreOneLineAndExitCode2) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"--frobnicate"},
                                             {"compare"},
                                             {"compare", "a"},
                                             {"compare", "a", "b", "c"},
                                             {"compare", "a", "b", "--frobnicate"},
                                             {"compare", "a", "b", "--format"},
                                             {"compare", "a", "b", "--format", "xml"},
                                             {"compare", "a", "b", "--format", "html"},
                                             {"compare", "a", "b", "--align", "1.5"},
                                             {"compare", "a", "b", "--align=99999999999999999999"},
                                             {"compare", "a", "b", "--quarantine", "maybe"},
                                             {"compare", "", ""},
                                             {"analyze"},
                                             {"analyze", "a", "--numpy", "x.npz"},
                                             {"golden", "frobnicate"},
                                             {""}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("assay: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

// Breaks if a mistyped flag were told as something else that is missing for it.
TEST_F(Usage, AnUnknownFlagIsNamedFirst) {
  expect_error({"run", "m.gguf", "--tokns", "1"},
               "The following argument was not expected: --tokns; see assay run --help");
  expect_error({"analyze", "--json", "--stat"},
               "The following argument was not expected: --stat; see assay analyze --help");
  expect_error(
      {"run", "m.gguf"},
      "Exactly 1 option from [--prompt,--prompt-file,--tokens,--inject,--follow] is required; see "
      "assay run --help");
}

TEST_F(Usage, AFlagThatIsGivenTwiceIsNamed) {
  expect_error({"run", "m.gguf", "--tokens", "1", "-n", "8", "-n", "64"},
               "-n is given more than once; see assay run --help");
}

TEST_F(Usage, ACommandOfGoldenIsNamed) {
  const std::string all =
      "golden has list, verify, record, review, accept, reject; see assay "
      "golden --help";
  expect_error({"golden", "foo"}, "'foo' is not a command of golden; " + all);
  expect_error({"golden"}, "golden is given nothing to do; " + all);
  EXPECT_EQ(run({"golden", "--help"}).exit_code, 0);
}

TEST_F(Usage, WhatWouldBeIgnoredIsRefused) {
  put("a.json", "{}");
  expect_error({"compare", "a", "b", "--ref-speed", folder_ + "/a.json"},
               "--ref-speed: only the html report shows how fast the engines were; give --format "
               "html, or leave it out");
  expect_error({"compare", "-", "-"},
               "-: standard input can be read only once; give a file for the other log");
}

TEST_F(Usage, ACompressedLogIsToldAsSuch) {
  using namespace std::string_literals;
  for (const auto& [bytes, program] : {std::pair("\x1f\x8b\x08\0more"s, "gzip"),
                                       {"\x28\xb5\x2f\xfd more"s, "zstd"},
                                       {"\xfd"
                                        "7zXZ\0more"s,
                                        "xz"},
                                       {"BZh91AY"s, "bzip2"}}) {
    const std::string log = put("log", bytes);
    expect_error({"analyze", log}, log + ": is compressed by " + program + "; give what " +
                                       program + " -dc prints, as a file or by <( )");
  }
}

TEST_F(Usage, MessagesSayWhatToDo) {
  const Outcome unknown = run({"frobnicate"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err,
              testing::MatchesRegex("assay: 'frobnicate' is not a command; the commands are run, "
                                    "tokenize, .*; see assay --help\n"));
  expect_error({"compare", "a", "b", "--format", "pdf"},
               "--format: 'pdf' is not known; give one of table, json, csv, html, junit, sarif, "
               "github");
  expect_error({"compare", "a", "b", "c", "--map-got", "published"},
               "--map-got: of several logs none is the reference; give --map, which is for all of "
               "them");
  expect_error(
      {"compare", "a", "b", "--align", "x"},
      "--align: 'x' is not an alignment; give auto, index, or what to add to the reference's "
      "token_idx, as in --align=-1");
}

}  // namespace
}  // namespace assay
