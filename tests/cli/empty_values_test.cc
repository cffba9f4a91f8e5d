// What an unset variable of a shell gives: a flag whose value is empty.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::Not;
using testing::StartsWith;

class EmptyValues : public Program {};

// Breaks if a flag that says what to judge by, or where to write, were dropped without a word.
TEST_F(EmptyValues, AreRefusedByNameBeforeAnythingIsDone) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  const std::string near = put("b.jsonl", line("logits", 0, {1, 2.001F}));
  EXPECT_EQ(run({"compare", log, near}).exit_code, 0);
  const std::string made = path("made");
  const std::vector<std::vector<std::string>> commands = {
      {"compare", log, near, "--policy"},
      {"compare", log, near, "--floor"},
      {"compare", log, near, "--model"},
      {"compare", log, near, "--ref-speed"},
      {"compare", log, near, "--got-speed"},
      {"compare", log, near, "--map"},
      {"compare", log, near, "--map-ref"},
      {"compare", log, near, "--map-got"},
      {"compare", log, near, "--align"},
      {"compare", log, near, "--output"},
      {"analyze", log, "--numpy"},
      {"analyze", log, "--compare"},
      {"matrix", log, "--policy"},
      {"matrix", log, "--reference"},
      {"matrix", log, "--map"},
      {"matrix", log, "--output"},
      {"perf", log, log, "--output"},
      {"golden", "list", "--folder"},
      {"golden", "record", "tinyllama", "--oracle"},
      {"mutate", "--folder"},
      {"mutate", "--vectors"},
      {"mutate", "--faults"},
      {"mutate", "--prompts"},
      {"mutate", "--output"},
      {"mutate", "m.gguf", "--prompt", "x", "--log", made, "--fault"},
      {"run", "m.gguf", "--prompt-file"},
      {"run", "m.gguf", "--inject"},
      {"run", "m.gguf", "--tokens", "1", "--log", made, "--values"},
      {"synth", "tinyllama-1.1b", "-o", made, "--vocab"},
      {"tokenize", "m.gguf", "--file"}};
  for (std::vector<std::string> command : commands) {
    const std::string flag = command.back();
    command.emplace_back("");
    expect_error(command, flag +
                              ": the value is empty, as of a variable that is not set; give one, "
                              "or leave the flag out");
  }
  EXPECT_FALSE(std::filesystem::exists(made));
}

// These say what to give.
TEST_F(EmptyValues, ASelectionOfNothingIsNotEverything) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  for (const char* command : {"compare", "matrix"}) {
    expect_error({command, log, log, "--tokens", ""},
                 "--tokens: '' is not a range of tokens; give positions such as 5, 5..20, 5.. or "
                 "..20, separated by commas");
    EXPECT_THAT(run({command, log, log, "--checkpoints", ""}).err,
                StartsWith("assay: --checkpoints: "));
  }
  EXPECT_THAT(run({"run", "m.gguf", "--tokens", ""}).err, StartsWith("assay: --tokens: "));
}

TEST_F(EmptyValues, WhatIsNeededIsNamed) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"compare", "", log}, "REF"},       {{"compare", log, ""}, "GOT"},
      {{"compare", log, log, ""}, "MORE"}, {{"analyze", ""}, "LOG"},
      {{"analyze", log, ""}, "LOG"},       {{"matrix", log, ""}, "PATH"},
      {{"convert", log, ""}, "OUTPUT"},    {{"convert", "", "a.npz"}, "INPUT"},
      {{"perf", "", log}, "BASE"},         {{"golden", "verify", ""}, "MODEL"},
      {{"mutate", ""}, "MODEL"},           {{"run", "", "--tokens", "1"}, "MODEL"},
      {{"synth", "", "-o", "x"}, "MODEL"}, {{"tokenize", "", "--text", "x"}, "MODEL"},
      {{"inspect", ""}, "MODEL"}};
  for (const auto& [command, place] : commands) {
    expect_error(command,
                 place + ": the value is empty, as of a variable that is not set; give one");
  }
}

// Breaks if what follows were taken for the value, as CLI11 does.
TEST_F(EmptyValues, AnEqualsSignEndsTheValue) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  expect_error({"compare", "--policy=", log, log},
               "--policy: the value is empty, as of a variable that is not set; give one, or leave "
               "the flag out");
  const std::string model = source_path("golden/tinyllama/tinyllama-f32.gguf");
  EXPECT_EQ(run({"tokenize", model, "--text=", "--no-bos"}).out, "[]\n");
}

// A text may have no characters: it is not the flag that is missing.
TEST_F(EmptyValues, AnEmptyTextIsAText) {
  const std::string model = source_path("golden/tinyllama/tinyllama-f32.gguf");
  EXPECT_EQ(run({"tokenize", model, "--text", ""}).out, "[1]\n");
  EXPECT_EQ(run({"run", model, "--prompt", "", "-n", "1"}).exit_code, 0);
  const std::string log = path("a.jsonl");
  EXPECT_EQ(run({"run", model, "--tokens", "1", "--log", log, "--team", ""}).exit_code, 0);
  EXPECT_THAT(contents(log), Not(testing::HasSubstr("\"team\"")));
}

}  // namespace
}  // namespace assay
