// assay floors: the noise between honest runs as a policy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "base/sha256.h"
#include "tests/cli/run_command.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class FloorsCommand : public RunCommand {
 protected:
  static constexpr const char* kTokens = "1,287,74,83,201,9,33,120";

  // `more` last, with what says how much of a record is logged.
  std::string log(const std::string& name, const std::vector<std::string>& more,
                  const std::string& command = "run", const std::string& tokens = kTokens) {
    std::vector<std::string> arguments = {command, kModel,  "--tokens", tokens,          "-n",
                                          "1",     "--log", path(name), "--checkpoints", "ops"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return path(name);
  }
  std::string exact() { return log("exact.jsonl", {"--sketch"}); }
  std::string f16_keys() { return log("f16-keys.jsonl", {"--sketch", "--kv", "f16"}); }
  std::string fast() { return log("fast.jsonl", {"--sketch", "--math", "fast"}); }
  std::string faulty(const std::string& fault) {
    return log(fault + ".jsonl", {"--sketch", "--fault", fault}, "mutate");
  }

  std::string policy(const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "floors");
    arguments.insert(arguments.end(), {"-o", path(name)});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("an error may be 3 times its floor"));
    return path(name);
  }
  Outcome compare(const std::string& ref, const std::string& got, const std::string& policy) {
    return run({"compare", ref, got, "--policy", policy});
  }
};

// Breaks if floors were wider than the noise: both faults pass the built-in 1 %.
TEST_F(FloorsCommand, HonestRunsPassAndAMistakeOfTheSameModelFails) {
  const std::string ref = exact();
  const std::string honest = f16_keys();
  const std::string tight = policy("tight.json", {ref, honest});
  const Outcome same = compare(ref, honest, tight);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, AllOf(StartsWith("IN PARITY  noise"), HasSubstr("x floor")));
  for (const char* fault : {"norm-unbiased-variance", "inputs-bf16"}) {
    const std::string got = faulty(fault);
    EXPECT_EQ(run({"compare", ref, got}).exit_code, 0) << fault;
    const Outcome outcome = compare(ref, got, tight);
    EXPECT_EQ(outcome.exit_code, 1) << fault << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("x the floor, 3 x is allowed")) << fault;
  }
}

// The other way round, the built-in 1 % fails int8 activations, which are as exact as they can be.
TEST_F(FloorsCommand, ARunThatIsAsExactAsItsArithmeticPasses) {
  const std::string ref = exact();
  const std::string honest = fast();
  EXPECT_EQ(run({"compare", ref, honest}).exit_code, 1);
  const std::string wide = policy("wide.json", {ref, f16_keys(), honest});
  EXPECT_EQ(compare(ref, honest, wide).exit_code, 0);
  EXPECT_EQ(compare(ref, path("f16-keys.jsonl"), wide).exit_code, 0);
  for (const char* fault : {"rope-base", "gelu-for-silu", "kv-shifted"}) {
    EXPECT_EQ(compare(ref, faulty(fault), wide).exit_code, 1) << fault;
  }
}

TEST_F(FloorsCommand, ThePolicyStatesWhatItWasMeasuredOn) {
  const std::string ref = exact();
  const std::string honest = f16_keys();
  const std::string file = policy("policy.json", {ref, honest, "--checkpoints", "layers"});
  rapidjson::Document json;
  json.Parse(contents(file).c_str());
  ASSERT_FALSE(json.HasParseError()) << contents(file);
  const auto& measured = json["measured"];
  EXPECT_THAT(measured["program"].GetString(), StartsWith("assay "));
  EXPECT_THAT(measured["command"].GetString(),
              AllOf(StartsWith("assay floors "), HasSubstr(ref), HasSubstr(honest),
                    HasSubstr("--checkpoints layers")));
  const auto& runs = measured["runs"];
  ASSERT_EQ(runs.Size(), 2U);
  const std::string bytes = contents(honest);
  EXPECT_EQ(runs[1]["sha256"].GetString(), sha256_hex(std::as_bytes(std::span(bytes))));
  EXPECT_STREQ(runs[1]["type"].GetString(), "Q8_0");
  EXPECT_EQ(json["k"].GetDouble(), 3);
  EXPECT_FALSE(json.HasMember("default"));
  const auto& logits = json["checkpoints"]["logits"];
  EXPECT_GT(logits["floor"].GetDouble(), 0);
  EXPECT_EQ(logits["run"].GetInt(), 1);
  EXPECT_EQ(logits["records"].GetInt(), 8);
  // Measuring again gives the same file.
  const std::string before = contents(file);
  EXPECT_EQ(contents(policy("policy.json", {ref, honest, "--checkpoints", "layers"})), before);
}

// Breaks if a guess held what was not measured, or floors of one model held another.
TEST_F(FloorsCommand, APolicyHoldsNothingButWhatWasMeasured) {
  const std::string ref = exact();
  const std::string honest = f16_keys();
  const std::string layers = policy("layers.json", {ref, honest, "--checkpoints", "layers"});
  expect_error({"compare", ref, honest, "--policy", layers},
               layers +
                   ": has no floor for 'layer_0_attn_norm'; leave it out with --checkpoints, "
                   "or measure it with assay floors");
  EXPECT_EQ(run({"compare", ref, honest, "--policy", layers, "--checkpoints", "layers"}).exit_code,
            0);
  const std::string head = put("head.jsonl", line("logits", 0, {1, 2, 3}, ",\"n\":300"));
  const std::string other = put("head2.jsonl", line("logits", 0, {1, 2, 3}, ",\"n\":300"));
  EXPECT_EQ(compare(head, other, layers).exit_code, 2);
  EXPECT_EQ(run({"compare", head, other, "--policy", layers, "--evidence", "any"}).exit_code, 0);
  const std::string of_another =
      R"({"assay":1,"model":{"name":"x","sha256":")" + std::string(64, '0') + "\"}}\n";
  const std::string foreign = put("foreign.jsonl", of_another + line("logits", 0, {1, 2, 3}));
  const Outcome refused = compare(foreign, foreign, layers);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("its floors are of other models than x"));
}

// Breaks if a quantiser's author, whose file is not among those measured, could not use the floors
// of another's; or if those of several files were taken for any reference.
TEST_F(FloorsCommand, FloorsOfSeveralFilesJudgeOneMoreAgainstTheirReference) {
  const auto of_file = [&](const std::string& name, char digit, const std::vector<float>& values) {
    return put(name, R"({"assay":1,"model":{"name":"x","sha256":")" + std::string(64, digit) +
                         "\"},\"tokens\":[5]}\n" + line("logits", 0, values));
  };
  const std::string ref = of_file("f32.jsonl", '0', {1, 2, 3});
  const std::string theirs = of_file("theirs.jsonl", '1', {1.01, 2, 3});
  const std::string mine = of_file("mine.jsonl", '2', {1.02, 2, 3});
  const std::string broken = of_file("broken.jsonl", '3', {2, 2, 3});
  const std::string floors = policy("files.json", {ref, theirs});
  EXPECT_EQ(compare(ref, mine, floors).exit_code, 0);
  EXPECT_EQ(compare(ref, broken, floors).exit_code, 1);
  const Outcome refused = compare(mine, ref, floors);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("of which " + mine + " is"));
}

// Breaks if the check of the model could be lost with a line of the file.
TEST_F(FloorsCommand, FloorsThatNameNoModelAreAnError) {
  const auto honest = [&](const std::string& name, float value) {
    return put(name, line("logits", 0, {1, 2, value}));
  };
  const std::string ref = honest("a.jsonl", 3);
  const std::string got = honest("b.jsonl", 3.01F);
  const std::string floors = policy("floors.json", {ref, got});
  EXPECT_EQ(compare(ref, got, floors).exit_code, 0) << "neither log names its model";
  const std::string text = contents(floors);
  const std::string key = R"("model_sha256":null)";
  const size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  std::string misspelt = text;
  misspelt.replace(at, key.size(), R"("model_sha265":null)");
  std::string no_runs = text;
  const size_t runs = no_runs.find(R"("runs":[)") + 8;
  no_runs.erase(runs, no_runs.find("],", runs) - runs);
  for (const auto& [changed, message] :
       {std::pair(misspelt, "a run of 'measured' has no 'model_sha256'"),
        std::pair(no_runs, "'runs' of 'measured' is empty")}) {
    const std::string file = put("changed.json", changed);
    const Outcome outcome = compare(ref, got, file);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, StartsWith("assay: " + file + ": " + message));
  }
}

TEST_F(FloorsCommand, WhatIsNoNoiseLeavesNoFile) {
  const std::string ref = exact();
  const std::string out = path("none.json");
  const auto refused = [&](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.begin(), "floors");
    arguments.insert(arguments.end(), {"-o", out});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("assay: "), HasSubstr(message)));
    EXPECT_FALSE(std::ifstream(out).good()) << message;
  };
  refused({ref, faulty("rope-base")}, "in the first layer: that looks like a mistake");
  for (const char* fault : {"gelu-for-silu", "kv-shifted", "norm-unbiased-variance"}) {
    refused({ref, faulty(fault)}, "jumps from 0 in the layer before to 0.");
  }
  refused({ref, log("other.jsonl", {"--sketch"}, "run", "1,287,74,83,201,9,33,121")},
          "other.jsonl");
  refused({ref, put("copy.jsonl", contents(ref))}, "has the bytes of");
  refused({ref, ref}, "has the bytes of");
  refused({ref, log("head.jsonl", {"--values", "4"})}, "head.jsonl");
  refused({ref, path("absent.jsonl")}, "absent.jsonl");
  std::string other = contents(fast());
  const std::string arch = R"("arch":"llama")";
  ASSERT_NE(other.find(arch), std::string::npos);
  other.replace(other.find(arch), arch.size(), R"("arch":"gemma2")");
  refused({ref, put("gemma2.jsonl", other)}, "is of the architecture gemma2, and");
  refused({ref}, "RUN is required");
  for (const char* k : {"0.5", "11", "nan", "3x", "-3"}) {
    refused({ref, f16_keys(), std::string("--k=") + k}, "is not a number from 1 to 10");
  }
  expect_error({"floors", ref, f16_keys(), "-o", ref},
               ref + ": the report would overwrite its input; give another -o");
}

// Breaks if runs that log other checkpoints besides mixed the floors of two: places of the network
// are counted among what both log.
TEST_F(FloorsCommand, RunsMayLogMoreThanOthers) {
  const std::string ref = exact();
  const std::string some = log("some.jsonl", {"--sketch", "--kv", "f16"});
  const std::string extra = path("extra.jsonl");
  std::ofstream(extra) << contents(fast()) << line("layer_0_ffn_up_of_mine", 0, {1, 2, 3})
                       << line("a_norm_of_mine", 0, {1, 2, 3});
  const std::string both = policy("both.json", {ref, some, extra});
  EXPECT_EQ(compare(ref, some, both).exit_code, 0);
  EXPECT_EQ(compare(ref, fast(), both).exit_code, 0);
}

}  // namespace
}  // namespace assay
