#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing::HasSubstr;

class MutateCommand : public Program {
 protected:
  const std::string model_ = source_path("golden/tinyllama/tinyllama-f32.gguf");
};

TEST_F(MutateCommand, ListsTheFaultsWithTheCausesThatAComparisonNames) {
  const Outcome outcome = run({"mutate", "--list"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("rope-pairing"));
  EXPECT_THAT(outcome.out, HasSubstr("[rope_pairing]"));
}

// The log of a faulty engine is one that a comparison can read, and finds wrong at the right op.
TEST_F(MutateCommand, WritesTheLogOfAFaultyEngine) {
  const std::string good = folder_ + "/good.jsonl";
  const std::string bad = folder_ + "/bad.jsonl";
  ASSERT_EQ(run({"run", model_, "--tokens", "1,287,74,83", "-n", "0", "--log", good,
                 "--checkpoints", "ops", "--values", "all"})
                .exit_code,
            0);
  const Outcome outcome = run({"mutate", model_, "--tokens", "1,287,74,83", "--fault",
                               "kv-k-shifted", "--layer", "0", "--log", bad});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("to be found at layer_0_attn\n"));
  const Outcome comparison = run({"compare", good, bad, "--format", "json"});
  EXPECT_EQ(comparison.exit_code, 1);
  EXPECT_THAT(comparison.out, HasSubstr("\"first_divergence\":{\"checkpoint\":\"layer_0_attn\""));
}

// Breaks if a log without a fault is given for one with it, so that a right gate seems to pass it.
TEST_F(MutateCommand, SaysWhereTheFaultChangesNothing) {
  const std::string log = folder_ + "/bad.jsonl";
  const auto said = [&](const std::string& fault, const std::string& tokens, const char* n) {
    const Outcome outcome =
        run({"mutate", model_, "--tokens", tokens, "-n", n, "--fault", fault, "--log", log});
    EXPECT_EQ(outcome.exit_code, 0);
    return outcome.err;
  };
  for (const std::string fault : {"rope-missing", "mask-misses-first"}) {
    EXPECT_THAT(said(fault, "1", "0"), HasSubstr("warning: '" + fault + "' changes nothing at "));
    EXPECT_THAT(said(fault, "1,287", "0"), HasSubstr("to be found at layer_1_"));
  }
  const std::string twelve = "1,287,74,83,88,279,290,292,309,299,5,6";
  EXPECT_THAT(said("rope-counts-again", twelve, "0"),
              HasSubstr("changes nothing at layer_1_q_rope"));
  EXPECT_THAT(said("rope-counts-again", twelve, "1"),
              HasSubstr("changes nothing at layer_1_q_rope"));
  EXPECT_THAT(said("rope-counts-again", twelve, "3"), HasSubstr("to be found at layer_1_q_rope"));
  EXPECT_THAT(said("scaled", "1", "0"), HasSubstr("to be found at layer_1_v"));
  EXPECT_THAT(said("embedding-row-off-by-one", "1", "0"), HasSubstr("to be found at embedding"));
}

// Breaks if -o, --faults or --folder were passed over where one fault's log is written.
TEST_F(MutateCommand, FlagsOfTheCatalogueDoNotGoWithOneFault) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"--output", {"-o", folder_ + "/report"}}, {"--faults", {"--faults", "kv-*"}},
      {"--folder", {"--folder", "golden"}},      {"--small-only", {"--small-only"}},
      {"--threads", {"--threads", "2"}},         {"--noise-runs", {"--noise-runs", "1"}}};
  for (const auto& [name, flags] : cases) {
    std::vector<std::string> arguments = {"mutate",   model_,  "--fault", "kv-k-shifted",
                                          "--tokens", "1,287", "--log",   folder_ + "/log"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    expect_error(arguments, "--fault excludes " + std::string(name) + "; see assay mutate --help");
  }
}

// Breaks if a log were written that has no fault.
TEST_F(MutateCommand, AFaultOfTheTokenizerNeedsAText) {
  expect_error(
      {"mutate", model_, "--fault", "bos-added", "--tokens", "1,287", "--log", folder_ + "/log"},
      "--tokens: fault 'bos-added' changes which tokens a text becomes; give a text with "
      "--prompt in its place");
}

TEST_F(MutateCommand, IdsNeedNoTokenizerThatIsKnown) {
  testing_support::TinyModel tiny;
  tiny.texts["tokenizer.ggml.model"] = "a kind of its own";
  const std::string model = tiny.write(folder_ + "/tiny.gguf");
  const Outcome outcome = run(
      {"mutate", model, "--tokens", "1,2,3", "--fault", "kv-k-shifted", "--log", folder_ + "/log"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(MutateCommand, WhatIsMissingIsSaid) {
  expect_error({"mutate", "--fault", "scale-missing"},
               "--fault: no model is given; give a model file (GGUF) too");
  expect_error({"mutate", model_, "--fault", "scale-missing"},
               "--fault: there is nowhere to write the faulty log to; give a file with --log");
  expect_error(
      {"mutate", "--fault", "misspelt"},
      "--fault: there is no fault 'misspelt'; 'kv-stale' is the nearest; assay mutate --list "
      "has all");
  expect_error(
      {"mutate", model_, "--fault", "scale-misssing", "--tokens", "1", "--log", folder_ + "/log"},
      "--fault: there is no fault 'scale-misssing'; 'scale-missing' is the nearest; "
      "assay mutate --list has all");
}

}  // namespace
}  // namespace assay
