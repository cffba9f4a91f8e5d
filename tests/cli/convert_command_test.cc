#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace assay {
namespace {

class ConvertCommand : public Program {};

TEST_F(ConvertCommand, ThereAndBackGivesTheSameLog) {
  const std::string text = line("logits", 0, {1, 2.5F}) + line("logits", 1, {-0.1F, 1e-9F});
  const std::string log = put("a.jsonl", text);
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    EXPECT_EQ(run({"convert", log, folder_ + "/" + name}).exit_code, 0);
    const Outcome back = run({"convert", folder_ + "/" + name, folder_ + "/back.jsonl"});
    EXPECT_EQ(back.exit_code, 0) << back.err;
    EXPECT_EQ(contents(folder_ + "/back.jsonl"), text);
  }
}

// Breaks if half a log were left where the input is damaged.
TEST_F(ConvertCommand, MistakesAreOneLine) {
  const std::string log = put("a.jsonl", line("logits", 0, {1}));
  const std::string bad = put("b.npz", "x");
  expect_error({"convert", log, "a.txt"},
               "a.txt: '.txt' is the ending of no known format; the endings are .jsonl, .npz, "
               ".safetensors and .parquet");
  expect_error({"convert", log, log},
               log + ": the output would overwrite its input; give another file");
  expect_error({"convert", log, "b.jsonl"},
               "b.jsonl: cannot convert .jsonl to .jsonl; one of the two must be a log, .jsonl");
  EXPECT_EQ(run({"convert", bad, folder_ + "/c.jsonl"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/c.jsonl"));
}

TEST_F(ConvertCommand, KeysThatCannotBeKeptAreOneWarning) {
  const std::string note = R"(,"note":1)";
  const std::string log =
      put("a.jsonl", line("logits", 0, {1}, note) + line("logits", 1, {1}, note));
  const Outcome outcome = run({"convert", log, folder_ + "/a.npz"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err,
              testing::EndsWith(": left out keys that are unknown or of a wrong type: note "
                                "in 2 lines\n"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

// Breaks if a record were left out in silence.
TEST_F(ConvertCommand, ATornLastLineIsAWarning) {
  const std::string log = put("a.jsonl", line("logits", 0, {1}) + "{\"checkpoint\"");
  const Outcome outcome = run({"convert", log, folder_ + "/a.npz"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, testing::HasSubstr("a.jsonl:2"));
}

}  // namespace
}  // namespace assay
