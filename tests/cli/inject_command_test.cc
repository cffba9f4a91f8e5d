// assay run MODEL --inject REF.jsonl
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <filesystem>
#include <map>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kF32Model = source_path("golden/tinyllama/tinyllama-f32.gguf");

class InjectCommand : public Program {
 protected:
  // A log of the layers by `command` with its arguments.
  std::string log(const std::string& name, std::vector<std::string> command,
                  const std::string& values = "all") {
    std::string path = folder_ + "/" + name;
    command.insert(command.end(), {"--tokens", "1,45,120,7,201,33", "-n", "0", "--checkpoints",
                                   "layers", "--values", values, "--log", path});
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return path;
  }
  std::string right() { return log("right.jsonl", {"run", kF32Model}); }

  // What --json shows of each step: its own error.
  std::map<std::string, double> own(const std::string& reference) {
    const Outcome outcome = run({"run", kF32Model, "--inject", reference, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    rapidjson::Document json;
    json.Parse(outcome.out.c_str());
    EXPECT_FALSE(json.HasParseError()) << outcome.out;
    EXPECT_EQ(json["tokens"].GetInt64(), 6);
    std::map<std::string, double> errors;
    for (const auto& step : json["steps"].GetArray()) {
      errors[step["checkpoint"].GetString()] = step["own"].GetDouble();
      EXPECT_TRUE(step["total"].IsNumber());
    }
    return errors;
  }
};

TEST_F(InjectCommand, AnEngineIsExactlyItsOwnReference) {
  const auto errors = own(right());
  ASSERT_EQ(errors.size(), 4U);
  for (const auto& [checkpoint, error] : errors) EXPECT_EQ(error, 0) << checkpoint;
}

// Breaks if a layer were blamed for what the layer before it did.
TEST_F(InjectCommand, TheLayerThatDiffersIsTheOneToldAndNoOther) {
  const auto errors =
      own(log("wrong.jsonl", {"mutate", kF32Model, "--fault", "scale-missing", "--layer", "0"}));
  EXPECT_EQ(errors.at("embedding"), 0);
  EXPECT_GT(errors.at("layer_0_output"), 1e-2);
  EXPECT_LT(errors.at("layer_1_output"), 1e-6);
  EXPECT_LT(errors.at("logits"), 1e-6);
}

TEST_F(InjectCommand, TheTableNamesEachStep) {
  const Outcome outcome = run({"run", kF32Model, "--inject", right()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("own error"), HasSubstr("layer_1_output")));
}

TEST_F(InjectCommand, WhatCannotBeInjectedIsOneClearLine) {
  const std::string heads = log("heads.jsonl", {"run", kF32Model}, "10");
  const Outcome outcome = run({"run", kF32Model, "--inject", heads});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr(heads + ":2: 'embedding' at token 0 holds 10 of its 128"));
  expect_error({"run", kF32Model, "--inject", heads, "--log", folder_ + "/x"},
               "--log: no log is written with --inject; leave one of the two out");
  setenv("ORCH_LOG_FILE", (folder_ + "/env.jsonl").c_str(), 1);
  const Outcome warned = run({"run", kF32Model, "--inject", right()});
  unsetenv("ORCH_LOG_FILE");
  EXPECT_EQ(warned.exit_code, 0);
  EXPECT_THAT(warned.err, HasSubstr("env.jsonl, stays as it is"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/env.jsonl"));
  EXPECT_EQ(run({"run", kF32Model, "--inject", folder_ + "/none"}).exit_code, 2);
}

}  // namespace
}  // namespace assay
