// assay run --replay-routing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>

#include "tests/cli/run_command.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

// Three layers, each with five experts of which a token uses three.
const std::string kExperts = source_path("golden/qwen3moe/qwen3moe-f32.gguf");

// Keys and values in 16 bits change the third expert of token 57 in layer 0, where two are level.
constexpr const char* kNearTie =
    "121,278,66,189,242,297,33,6,240,132,282,119,98,240,276,281,243,203,77,118,77,267"
    ",199,7,32,81,21,154,15,137,242,198,218,202,295,227,68,187,49,18,69,253,111,132,2"
    "23,154,215,259,197,293,179,273,299,208,299,118,172,14,143,83";
// The same changes the order of experts of token 7 in layer 0.
constexpr const char* kOtherOrder = "285,275,283,208,243,96,19,193,203,101,257,202";

class ReplayCommand : public RunCommand {
 protected:
  // Runs with all values of all checkpoints logged.
  void log(const std::string& file, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", kExperts});
    arguments.insert(arguments.end(), {"--log", file, "--checkpoints", "ops", "--values", "all"});
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  // The records as lines, sorted: their order is that of batches.
  std::multiset<std::string> lines(const std::string& file) const {
    std::istringstream text(contents(file));
    std::multiset<std::string> all;
    for (std::string one; std::getline(text, one);) {
      const size_t time = one.find(",\"ts\"");
      if (time != std::string::npos) one.erase(time, one.find(',', time + 1) - time);
      if (one.find("\"assay\":1,") == std::string::npos) all.insert(one);
    }
    return all;
  }

  // The line of a record.
  std::string line_of(const std::string& file, const std::string& checkpoint, int token) const {
    const std::string key =
        "\"checkpoint\":\"" + checkpoint + "\",\"token_idx\":" + std::to_string(token) + ",";
    for (const std::string& one : lines(file)) {
      if (one.find(key) != std::string::npos) return one;
    }
    return "";
  }

  Outcome replay(const std::string& file) {
    return run({"run", kExperts, "--tokens", "1,45,120", "-n", "0", "--replay-routing", file});
  }
};

// Breaks if giving an engine its own choice changed anything, in prompts, batches or decode.
TEST_F(ReplayCommand, ItsOwnChoiceGivesTheSameBits) {
  const std::string ref = path("ref.jsonl");
  const std::string got = path("got.jsonl");
  log(ref, {"--tokens", "1,45,120,7,9,200,31", "-n", "6", "--ignore-eos"});
  EXPECT_THAT(line_of(ref, "layer_1_experts", 4), HasSubstr("\"dtype\":\"i32\""));
  for (const std::string batch : {"1", "3", "512"}) {
    log(got, {"--follow", ref, "--replay-routing", ref, "--batch", batch});
    EXPECT_EQ(lines(got), lines(ref)) << batch;
  }
  log(got, {"--tokens", "1,45,120,7,9,200,31", "-n", "6", "--ignore-eos", "--replay-routing", ref});
  EXPECT_EQ(lines(got), lines(ref));
  EXPECT_THAT(contents(got), HasSubstr("\"routing\":\"replayed\"}\n"));
  EXPECT_THAT(contents(ref), testing::Not(HasSubstr("routing")));
  const Outcome compared = run({"compare", ref, got});
  EXPECT_EQ(compared.exit_code, 0);
  EXPECT_THAT(compared.err, HasSubstr("are not the engine's own choice"));
}

// Breaks if the engine kept to its own router, or took weights from elsewhere than its own logits.
TEST_F(ReplayCommand, OtherExpertsAreWeighedByTheEnginesOwnLogits) {
  const std::string ref = path("ref.jsonl");
  const std::string got = path("got.jsonl");
  log(ref, {"--tokens", "1,45,120", "-n", "0"});
  const std::string own = line_of(ref, "layer_0_experts", 1);
  const size_t begin = own.find("\"values\":[") + 10;
  const std::string ids = own.substr(begin, own.find(']', begin) - begin);
  std::string others;
  for (const char* three : {"0,1,2", "4,3,2"}) {
    if (ids != three) others = three;
  }
  const std::string record = "\"checkpoint\":\"layer_0_experts\",\"token_idx\":1,";
  std::string text = contents(ref);
  const size_t at = text.find("\"values\":[", text.find(record)) + 10;
  text.replace(at, ids.size(), others);
  const size_t end = text.find('\n', at);
  const size_t summary = text.find(",\"summary\"", at);
  text.replace(summary, end - summary, "}");
  log(got, {"--tokens", "1,45,120", "-n", "0", "--replay-routing", put("other.jsonl", text)});
  EXPECT_THAT(line_of(got, "layer_0_experts", 1), HasSubstr("\"values\":[" + others + "]"));
  EXPECT_EQ(line_of(got, "layer_0_router", 1), line_of(ref, "layer_0_router", 1));
  EXPECT_EQ(line_of(got, "layer_0_output", 0), line_of(ref, "layer_0_output", 0));
  EXPECT_NE(line_of(got, "layer_0_expert_weights", 1), line_of(ref, "layer_0_expert_weights", 1));
  EXPECT_NE(line_of(got, "layer_1_output", 2), line_of(ref, "layer_1_output", 2));
}

// Breaks if an honest engine fails at a near tie of experts, or if it could not be compared whole
// with the reference's.
TEST_F(ReplayCommand, WithTheReferencesExpertsOnlyTheEnginesOwnErrorRemains) {
  const std::string ref = path("ref.jsonl");
  const std::string got = path("got.jsonl");
  log(ref, {"--tokens", kNearTie, "-n", "0"});
  log(got, {"--tokens", kNearTie, "-n", "0", "--kv", "f16"});
  const auto compared = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compare", ref, got});
    return run(more);
  };
  const Outcome table = compared({});
  EXPECT_EQ(table.exit_code, 0) << table.out << table.err;
  EXPECT_THAT(table.out, HasSubstr("IN PARITY  tie_flip: experts flip between candidates that are "
                                   "level within the error"));
  EXPECT_THAT(table.out, HasSubstr("1 flip of experts: layer_0_experts at token 57 has expert"));
  EXPECT_THAT(table.out, HasSubstr("assay run MODEL --follow " + ref + " --replay-routing " + ref));
  EXPECT_EQ(compared({"--strict-argmax"}).exit_code, 1);
  const Outcome whole = compared({"--evidence", "whole"});
  EXPECT_EQ(whole.exit_code, 2);
  EXPECT_THAT(whole.err,
              HasSubstr("it follows from a flip of experts or positions that were level; give the "
                        "engine the reference's experts, as assay run"));
  rapidjson::Document json;
  json.Parse(compared({"--format", "json"}).out.c_str());
  ASSERT_EQ(json["flips"].Size(), 1U);
  EXPECT_STREQ(json["flips"][0]["checkpoint"].GetString(), "layer_0_experts");
  EXPECT_LE(json["flips"][0]["margin"].GetDouble(), json["flips"][0]["error"].GetDouble());
  EXPECT_GT(json["evidence"]["excused"].GetInt(), 0);

  log(got, {"--follow", ref, "--kv", "f16", "--replay-routing", ref});
  json.Parse(compared({"--evidence", "whole", "--format", "json"}).out.c_str());
  EXPECT_STREQ(json["verdict"].GetString(), "noise");
  EXPECT_EQ(json["evidence"]["excused"].GetInt(), 0);
  EXPECT_EQ(json["flips"].Size(), 0U);
}

TEST_F(ReplayCommand, ExpertsInAnotherOrderAreComparedWhole) {
  const std::string ref = path("ref.jsonl");
  const std::string got = path("got.jsonl");
  log(ref, {"--tokens", kOtherOrder, "-n", "0"});
  log(got, {"--tokens", kOtherOrder, "-n", "0", "--kv", "f16"});
  const Outcome outcome = run({"compare", ref, got, "--evidence", "whole", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  rapidjson::Document json;
  json.Parse(outcome.out.c_str());
  ASSERT_EQ(json["flips"].Size(), 1U);
  EXPECT_TRUE(json["flips"][0]["same_experts"].GetBool());
}

// Breaks if a log that does not fit the model crashed it, or chose experts that no one named.
TEST_F(ReplayCommand, WhatCannotBeReplayedIsTold) {
  const std::string ref = path("ref.jsonl");
  log(ref, {"--tokens", "1,45,120", "-n", "0"});
  EXPECT_EQ(replay(ref).exit_code, 0);
  const std::string record = "\"checkpoint\":\"layer_1_experts\",\"token_idx\":2,";
  const std::string whole = line_of(ref, "layer_1_experts", 2);
  int n_edited = 0;
  const auto with = [&](const std::string& line) {
    std::string text;
    for (const std::string& one : lines(ref)) text += (one == whole ? line : one) + "\n";
    return put("edited" + std::to_string(++n_edited) + ".jsonl", text);
  };
  const auto ids = [&](const std::string& values, const std::string& shape = "[1,3]") {
    return with("{" + record + "\"dtype\":\"i32\",\"shape\":" + shape + ",\"values\":[" + values +
                "]}");
  };
  const std::pair<std::string, std::string> bad[] = {
      {ids("0,1,5"), "'layer_1_experts' at token 2 names the expert 5, the model has 0 to 4"},
      {ids("0,1,-1"), "names the expert -1,"},
      {ids("0,1,1.5"), "names the expert 1.5,"},
      {ids("0,1,\"NaN\""), "names the expert nan,"},
      {ids("0,1,1e30"), "names the expert 1e+30,"},
      {ids("0,1,1"), "names an expert twice"},
      {ids("0,1", "[1,2]"), "has 2 experts, the model uses 3 a token"},
      {ids("0,1"), "holds 2 of its 3 ids"},
      {with(
           "{\"checkpoint\":\"x\",\"token_idx\":0,\"dtype\":\"f32\",\"shape\":[1],\"values\":[1]}"),
       "it has no 'layer_1_experts' at token 2"}};
  for (const auto& [file, message] : bad) {
    const Outcome outcome = replay(file);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_THAT(outcome.err, HasSubstr("edited"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(ReplayCommand, OtherRunsThanTheLogsAreRejected) {
  const std::string ref = path("ref.jsonl");
  log(ref, {"--tokens", "1,45,120", "-n", "0"});
  const auto rejected = [&](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.end(), {"--replay-routing", ref});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  rejected({"run", kExperts, "--tokens", "1,46,120", "-n", "0"},
           "its header has token 45 at position 1, where this run has 46");
  rejected({"run", kExperts, "--tokens", "1,45,120,7", "-n", "0"},
           "it has no 'layer_0_experts' at token 3; evaluate no other tokens than the log has");
  rejected({"run", kExperts, "--tokens", "1,45,120", "-n", "2", "--ignore-eos"},
           "it has no 'layer_0_experts' at token 3");
  rejected({"run", kModel, "--tokens", "1,45", "-n", "0"}, "has no experts to choose");
  rejected({"run", kExperts, "--inject", ref}, "excludes");
  rejected({"run", kExperts, "--tokens", "1,45,120", "-n", "0", "--log", ref},
           "the log would overwrite its input");
  EXPECT_EQ(replay(put("none.jsonl", line("logits", 0, {1}))).exit_code, 2);
}

}  // namespace
}  // namespace assay
