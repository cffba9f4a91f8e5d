// Reports and errors on logs from standard input or a pipe.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class PipedLogs : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    ref_ = put("ref.jsonl", line("logits", 0, {1, 2, 3}) + line("logits", 1, {3, 2, 1}));
    torn_ = put("torn.jsonl", contents(ref_) + "{\"checkpoint\":\"logits\",\"tok");
    empty_ = put("empty.jsonl", "");
    broken_ = put("broken.jsonl", "x\n");
  }
  // The program's output and messages; never the path of a copy.
  std::string said(const std::string& arguments, int exit_code) {
    const std::string command =
        fmt::format("bash -c '{} {}' > {} 2>&1", program_path("assay"), arguments, path(".o"));
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), exit_code) << arguments;
    std::string text = contents(path(".o"));
    EXPECT_THAT(text, Not(HasSubstr("/proc/"))) << arguments;
    return text;
  }
  std::string ref_;
  std::string torn_;
  std::string empty_;
  std::string broken_;
};

// Breaks if a message named a file of ours that nobody else can find.
TEST_F(PipedLogs, ErrorsNameWhatWasGiven) {
  EXPECT_EQ(said("compare - " + ref_ + " < " + broken_, 2),
            "assay: -:1: is not valid JSON at byte 1: Invalid value; each line of a log is one "
            "JSON object\n");
  const std::string none =
      ": the log holds no records; check that the engine logged to this file\n";
  EXPECT_EQ(said("compare " + ref_ + " - < " + empty_, 2), "assay: -" + none);
  EXPECT_EQ(said("compare " + ref_ + " /dev/stdin < " + empty_ + " 3<&1", 2),
            "assay: /dev/stdin" + none);
  EXPECT_EQ(said("analyze - < " + empty_, 2), "assay: -" + none);
  EXPECT_THAT(said("analyze " + ref_ + " --compare <(cat " + empty_ + ")", 2),
              testing::MatchesRegex("assay: /dev/fd/[0-9]+" + none));
  EXPECT_THAT(said("compare <(cat " + ref_ + ") <(cat " + broken_ + ")", 2),
              StartsWith("assay: /dev/fd/"));
  EXPECT_THAT(said("compare " + ref_ + " " + ref_ + "x - < " + broken_, 2),
              StartsWith("assay: " + ref_ + "x: cannot open"));
}

// Breaks if what has no end filled the disk with a copy.
TEST_F(PipedLogs, WhatIsNoLogIsNotReadToItsEnd) {
  EXPECT_EQ(said("analyze - < <(yes | head -c 50000000 && echo all was read >&2)", 2),
            "assay: -:1: is not valid JSON at byte 1: Invalid value; each line of a log is one "
            "JSON object\n");
}

// Breaks if what llama-eval-callback prints had to go through a file.
TEST_F(PipedLogs, PrintedTensorsAreReadAsFromAFile) {
  const std::string printed = put("eval.txt",
                                  "loading the model\n"
                                  "common_debug_cb_eval:   embd = (f32)   GET_ROWS(a{3, 8, 1, 1}, "
                                  "b{1, 1, 1, 1}}) = {3, 1, 1, 1}\n"
                                  "    [\n        [\n"
                                  "            [      1.4085,       2.2274,      -1.1977  ],\n"
                                  "        ],\n    ]\n    sum = 2.438200\n");
  const std::string log = put("embd.jsonl", line("embd", 0, {1.4085F, 2.2274F, -1.1977F}));
  const std::string wrong = put("wrong.jsonl", line("embd", 0, {1.4085F, 2.2274F, 1.1977F}));
  EXPECT_THAT(said("compare " + log + " " + printed, 0), HasSubstr("IN PARITY"));
  // In pieces, too: the first shows no tensor.
  const std::string pieces = "<(head -c 9 " + printed + "; sleep 0.2; tail -c +10 " + printed + ")";
  for (const std::string& pipe : {"- < " + printed, pieces}) {
    EXPECT_THAT(said("compare " + log + " " + pipe, 0), HasSubstr("IN PARITY")) << pipe;
    EXPECT_THAT(said("compare " + wrong + " " + pipe, 1), HasSubstr("DIVERGED")) << pipe;
  }
  EXPECT_THAT(said("compare " + log + " - < <(head -c 9 " + printed + ")", 2),
              StartsWith("assay: -:1: is not valid"));
  const std::string torn = put("torn.txt", contents(printed).substr(0, 200));
  EXPECT_THAT(said("analyze - < " + torn, 2), StartsWith("assay: -:"));
}

TEST_F(PipedLogs, WarningsNameWhatWasGiven) {
  const std::string warning = "-:3: the last line is cut off and was left out";
  EXPECT_THAT(said("compare " + ref_ + " - < " + torn_, 0),
              StartsWith("assay: warning: " + warning));
  EXPECT_THAT(said("analyze - < " + torn_, 0), StartsWith("assay: warning: " + warning));
  for (const char* format : {"json", "html", "junit", "github", "sarif", "csv"}) {
    EXPECT_THAT(said(fmt::format("compare {} - --format {} < {}", ref_, format, torn_), 0),
                HasSubstr(warning));
  }
}

// Breaks if runs were called by the numbers of their copies.
TEST_F(PipedLogs, OfSeveralEachHasTheNameItWasGiven) {
  const std::string other = put("other.jsonl", R"({"assay":1,"engine":"other"})"
                                               "\n" +
                                                   contents(ref_));
  for (const char* format : {"table", "json"}) {
    const std::string text =
        said(fmt::format("compare {} - {} --format {} < {}", ref_, other, format, torn_), 0);
    EXPECT_THAT(text, HasSubstr("assay: warning: -:3: the last line"));
    EXPECT_THAT(text, HasSubstr(std::string(format) == "json" ? "{\"log\":\"-\"," : "\n  -  "));
  }
  const std::string wrong =
      put("wrong.jsonl", line("logits", 0, {1, 2, 3}) + line("logits", 1, {-9, 2, 1}));
  EXPECT_THAT(said("compare " + ref_ + " " + other + " - < " + wrong, 1),
              StartsWith("OUTLIER  - differs from ref.jsonl, other.jsonl,"));
  EXPECT_THAT(said("compare " + ref_ + " " + other + " <(cat " + wrong + ")", 1),
              testing::ContainsRegex("^OUTLIER  /dev/fd/[0-9]+ differs from ref.jsonl"));
}

}  // namespace
}  // namespace assay
