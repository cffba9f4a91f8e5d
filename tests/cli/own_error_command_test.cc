// assay compare REF GOT --model M.gguf --own-error X
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kHeldModel = source_path("golden/tinyllama/tinyllama-f32.gguf");

class OwnErrorCommand : public Program {
 protected:
  // The log of an engine, right or with a fault in layer 1.
  std::string log(const std::string& name, const std::string& fault = "",
                  const std::string& values = "all", const std::string& checkpoints = "ops") {
    std::string path = folder_ + "/" + name;
    std::vector<std::string> command = {"run", kHeldModel};
    if (!fault.empty()) command = {"mutate", kHeldModel, "--fault", fault, "--layer", "1"};
    command.insert(command.end(), {"--tokens", "1,45,120,7,201,33", "-n", "3", "--checkpoints",
                                   checkpoints, "--values", values, "--log", path});
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return path;
  }
  static std::vector<std::string> compare(const std::string& ref, const std::string& got,
                                          const std::string& format = "table",
                                          const std::string& limit = "1e-6") {
    return {"compare", ref, got, "--model", kHeldModel, "--own-error", limit, "--format", format};
  }
  rapidjson::Document json_of(const std::string& ref, const std::string& got) {
    rapidjson::Document json;
    json.Parse(run(compare(ref, got, "json")).out.c_str());
    EXPECT_FALSE(json.HasParseError());
    return json;
  }
};

TEST_F(OwnErrorCommand, ARightLogAlonePasses) {
  const std::string right = log("right.jsonl");
  const Outcome outcome = run(compare(right, right));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("IN PARITY"),
                                 HasSubstr("own errors: 264 of 264 records held, largest ")));
  EXPECT_EQ(outcome.err, "");
  const rapidjson::Document json = json_of(right, right);
  const auto& own = json["own_errors"];
  EXPECT_EQ(own["limit"].GetDouble(), 1e-6);
  EXPECT_EQ(own["held"].GetInt(), 264);
  EXPECT_EQ(own["not_held"].GetInt(), 0);
  EXPECT_EQ(own["failed"].GetInt(), 0);
  EXPECT_LT(own["largest"]["value"].GetDouble(), 1e-6);
  EXPECT_TRUE(own["first_failed"].IsNull());
  for (const auto& result : json["results"].GetArray()) {
    EXPECT_LT(result["own_error"].GetDouble(), 1e-6);
  }
}

// Breaks if only the default format told of an op that is wrong within the tolerance.
TEST_F(OwnErrorCommand, AWrongOpWithinTheToleranceFailsInEveryFormat) {
  const std::string right = log("right.jsonl");
  const std::string wrong = log("wrong.jsonl", "eps-wrong");
  EXPECT_EQ(run({"compare", right, wrong}).exit_code, 0);
  for (const std::string& ref : {right, wrong}) {
    const Outcome table = run(compare(ref, wrong));
    EXPECT_EQ(table.exit_code, 1);
    EXPECT_THAT(
        table.out,
        AllOf(StartsWith("DIVERGED  wrong: an op is not what the model gives"),
              HasSubstr("first divergence  layer_1_attn_norm at token 0: own error "),
              // A right reference tells what the mistake is.
              HasSubstr(ref == right ? "eps: layer_1_attn_norm normalises with eps 1e-06 in place"
                                     : "look at the step from there to layer_1_attn_norm")));
    const rapidjson::Document json = json_of(ref, wrong);
    EXPECT_FALSE(json["pass"].GetBool());
    EXPECT_STREQ(json["first_divergence"]["metric"].GetString(), "own_error");
    EXPECT_STREQ(json["first_divergence"]["checkpoint"].GetString(), "layer_1_attn_norm");
    EXPECT_STREQ(json["own_errors"]["first_failed"]["checkpoint"].GetString(), "layer_1_attn_norm");
    EXPECT_EQ(json["own_errors"]["failed"].GetInt(), json["summary"]["failed"].GetInt());
  }
  for (const char* format : {"junit", "html", "github", "sarif"}) {
    const Outcome outcome = run(compare(wrong, wrong, format));
    EXPECT_EQ(outcome.exit_code, 1) << format;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("layer_1_attn_norm"), HasSubstr("own error")))
        << format;
  }
  const std::string csv = run(compare(wrong, wrong, "csv")).out;
  EXPECT_THAT(csv, HasSubstr(",evidence,own_error\n"));
  EXPECT_THAT(csv, HasSubstr(",wrong,0.01,failed,"));
}

TEST_F(OwnErrorCommand, ALogAloneThatLacksARecordIsIncomplete) {
  const std::string right = log("right.jsonl");
  const std::string text = contents(right);
  const size_t begin = text.find("{\"checkpoint\":\"layer_1_k\",\"token_idx\":4");
  const size_t end = text.find('\n', begin) + 1;
  const std::string lacking = put("lacking.jsonl", text.substr(0, begin) + text.substr(end));
  const std::string copy = put("copy.jsonl", contents(lacking));
  for (const std::string& ref : {lacking, copy}) {
    const Outcome outcome = run(compare(ref, lacking));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, StartsWith("INCOMPLETE"));
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("the first layer_1_k at token 4: the model computes it"),
                      HasSubstr("--allow-missing 'layer_*_k'")));
  }
  EXPECT_EQ(run(compare(right, right)).exit_code, 0);
  std::vector<std::string> allowed = compare(lacking, lacking);
  allowed.insert(allowed.end(), {"--allow-missing", "layer_*_k"});
  EXPECT_EQ(run(allowed).exit_code, 0);
}

TEST_F(OwnErrorCommand, HeadsAloneAreAClearError) {
  const std::string heads = log("heads.jsonl", "", "10");
  expect_error(compare(heads, heads),
               heads +
                   ": no record can be held to the model by its own error: of the first, embedding "
                   "at token 0, only a part of its values is logged; log it with --checkpoints ops "
                   "--values all, or --checkpoints layers --values all");
}

// What would break: a log that is known to be wrong, called one that cannot be compared.
TEST_F(OwnErrorCommand, HeadsThatFailHaveFailed) {
  const std::string heads = log("heads.jsonl", "", "10");
  std::string bytes = contents(heads);
  const size_t at = bytes.find("\"values\":[") + 10;
  bytes.replace(at, bytes.find(',', at) - at, "\"NaN\"");
  const Outcome outcome = run(compare(heads, put("nan.jsonl", bytes)));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("DIVERGED"));
}

TEST_F(OwnErrorCommand, UsageErrorsAreOneLine) {
  const std::string right = log("right.jsonl", "", "all", "layers");
  expect_error(
      {"compare", right, right, "--own-error", "1e-5"},
      "--own-error: own errors are held to a model, and none is given; add --model M.gguf, "
      "the model that the judged log is of");
  for (const char* wrong : {"0", "-1", "nan", "inf", "x", "1e-5x"}) {
    expect_error(compare(right, right, "table", wrong),
                 std::string("--own-error: '") + wrong +
                     "' is no error that an op may have; give a number above 0, such as 1e-6 for "
                     "32-bit floats");
  }
  for (const char* wide : {"1", "1e9"}) {
    expect_error(compare(right, right, "table", wide),
                 std::string("--own-error: ") + wide +
                     " lets anything pass: zeros are off by 1; give less, such as 1e-6 for 32-bit "
                     "floats");
  }
  std::vector<std::string> several = compare(right, right);
  several.insert(several.begin() + 1, right);
  expect_error(several,
               "--own-error: several logs are held to each other alone; give two logs, or one of "
               "them twice");
}

}  // namespace
}  // namespace assay
