#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/cli/program.h"

namespace assay {
namespace {

using testing::HasSubstr;

class AnalyzeCommand : public Program {};

TEST_F(AnalyzeCommand, SaysWhatALogHolds) {
  const std::string text = line("logits", 0, {1, 2}) + line("logits", 1, {3, 4});
  const std::string log = put("a.jsonl", text);
  const Outcome outcome = run({"analyze", log, "--stats", "--compare", put("b.jsonl", text)});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("2 of 1 checkpoint at 2 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("logits"));
}

TEST_F(AnalyzeCommand, PrintsOneJsonObject) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  rapidjson::Document json;
  json.Parse(run({"analyze", log, "--json", "--compare", log}).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_EQ(json["records"].GetInt(), 1);
  EXPECT_EQ(json["stats"].Size(), 1U);
  EXPECT_EQ(json["compare"]["tokens"].GetInt(), 1);
}

TEST_F(AnalyzeCommand, WritesNumpysArchive) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  const Outcome outcome = run({"analyze", log, "--numpy", folder_ + "/a.npz"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(contents(folder_ + "/a.npz").substr(0, 2), "PK");
  const std::string other = put("b.jsonl", line("logits", 0, {1, 2}));
  for (const std::string& input : {log, other}) {
    expect_error({"analyze", log, "--compare", other, "--numpy", input},
                 input + ": the archive would overwrite its input; give another --numpy");
  }
  expect_error({"analyze", log, log, "--numpy", folder_ + "/b.npz"},
               "--numpy: an archive is of one log; give one LOG with it");
}

// Breaks if the counts were of the values that are listed, 64 of a record.
// Breaks if a log beside itself, or beside that of another model, looks like two runs.
TEST_F(AnalyzeCommand, WarnsOfCopiesAndOfOtherModels) {
  const auto of_model = [&](const std::string& name, char digit) {
    return put(
        name,
        "{\"assay\":1,\"model\":{\"name\":\"m\",\"sha256\":\"" + std::string(64, digit) + "\"}}\n" +
            R"({"checkpoint":"logits","token_idx":0,"dtype":"f32","shape":[2],"values":[1,2]})" +
            "\n");
  };
  const std::string log = of_model("a.jsonl", 'a');
  for (const std::vector<std::string>& rest : {{log}, std::vector<std::string>{"--compare", log}}) {
    std::vector<std::string> command = {"analyze", log};
    command.insert(command.end(), rest.begin(), rest.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "assay: warning: " + log + " is the same file as " + log + "\n");
  }
  EXPECT_THAT(run({"analyze", log, "--compare", of_model("b.jsonl", 'b')}).err,
              testing::HasSubstr("the logs are of different model files"));
  EXPECT_EQ(run({"analyze", log, "--compare", of_model("c.jsonl", 'a')}).err, "");
}

TEST_F(AnalyzeCommand, CountsTheGarbageThatIsNotListed) {
  std::vector<float> values(200, 1.5F);
  std::fill(values.begin(), values.begin() + 150, std::nanf(""));
  const std::string log = put("a.jsonl", line("layer_0_output", 0, values));
  EXPECT_THAT(run({"analyze", log}).out, HasSubstr("nonfinite: 150 values at token 0"));
  const std::string good =
      put("good.jsonl", line("layer_0_output", 0, std::vector<float>(200, 1.5F)));
  EXPECT_THAT(run({"compare", good, log}).out,
              HasSubstr("nonfinite in the other: 150 values at token 0"));
}

// What would break: a gate that passes whatever the log holds.
TEST_F(AnalyzeCommand, StrictEndsWith1WhereAnythingIsFound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string clean = put("a.jsonl", line("logits", 0, {1, 2, 3, 4, 5, 6, 7, 8}));
  const std::string padded = put(
      "b.jsonl", line("logits", 0, {1, 2, 3, 4, 5, 6, 7, 8, -kInfinity, -kInfinity, -kInfinity}));
  for (const std::string& log : {clean, padded}) {
    EXPECT_EQ(run({"analyze", log, "--strict"}).exit_code, 0) << log;
  }
  const std::string empty =
      R"({"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[4],"values":[]})"
      "\n";
  for (const std::string& text : {line("layer_0_q", 0, {1, 2, std::nanf(""), 4, 5, 6, 7, 8}),
                                  line("layer_0_q", 0, {0, 0, 0, 0, 0, 0, 0, 0}), empty}) {
    const std::string bad = put("bad.jsonl", text);
    EXPECT_EQ(run({"analyze", bad}).exit_code, 0);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"analyze", "--strict", bad},
          {"analyze", "--strict", clean, bad},
          {"analyze", "--strict", clean, "--compare", bad},
          {"analyze", "--strict", "--json", bad}}) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_NE(outcome.out, "");
      EXPECT_EQ(outcome.err, "");
    }
  }
}

// Breaks if ranks that hold a tensor whole could differ unseen, in one file or over those of a run;
// or if ranks that hold different things were accused.
TEST_F(AnalyzeCommand, StrictHoldsReplicasOfRanksToOneAnother) {
  const std::vector<float> right = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> wrong = {1, 2, 3, 4.5F, 5, 6, 7, 8};
  const auto of_rank = [](int tp, const std::vector<float>& values, const std::string& more = "",
                          const std::string& name = "layer_0_output") {
    return line(name, 3, values, ",\"rank\":{\"tp\":" + std::to_string(tp) + "}" + more);
  };
  const auto exit_code = [&](const std::vector<std::string>& ranks) {
    std::string together;
    for (const std::string& rank : ranks) together += rank;
    const int of_file = run({"analyze", "--strict", put("one.jsonl", together)}).exit_code;
    std::filesystem::remove_all(folder_ + "/run");
    std::filesystem::create_directories(folder_ + "/run");
    for (size_t i = 0; i < ranks.size(); ++i) {
      put("run/" + std::to_string(i) + ".jsonl", ranks[i]);
    }
    EXPECT_EQ(run({"analyze", "--strict", folder_ + "/run"}).exit_code, of_file);
    return of_file;
  };
  EXPECT_EQ(exit_code({of_rank(0, right), of_rank(1, right)}), 0);
  EXPECT_EQ(exit_code({of_rank(0, right), of_rank(1, wrong)}), 1);
  EXPECT_EQ(exit_code({of_rank(0, right), of_rank(1, right), of_rank(2, wrong)}), 1);
  EXPECT_EQ(exit_code({line("layer_0_output", 3, right), of_rank(1, wrong)}), 1);
  EXPECT_EQ(exit_code({of_rank(0, right, "", "mine"), of_rank(1, wrong, "", "mine")}), 1);
  // A head of the same values; pieces and addends; and the same piece of two kinds of ranks.
  EXPECT_EQ(exit_code({of_rank(0, right), of_rank(1, {1, 2, 3, 4}, ",\"n\":8")}), 0);
  EXPECT_EQ(exit_code({of_rank(0, right), of_rank(1, {1, 2, 4, 4}, ",\"n\":8")}), 1);
  for (const char* dims : {"h[tp]", "+[tp] h"}) {
    const std::string cut = ",\"dims\":\"" + std::string(dims) + "\"";
    EXPECT_EQ(exit_code({of_rank(0, right, cut), of_rank(1, wrong, cut)}), 0) << dims;
    EXPECT_EQ(exit_code({of_rank(0, right, cut),
                         line("layer_0_output", 3, wrong, ",\"rank\":{\"ep\":1}" + cut)}),
              1)
        << dims;
  }
  // A name that is not Assay's own may be there several times.
  const std::string twice = of_rank(0, right, "", "mine") + of_rank(0, wrong, "", "mine");
  EXPECT_EQ(exit_code({twice, of_rank(1, right, "", "mine") + of_rank(1, wrong, "", "mine")}), 0);
  EXPECT_EQ(exit_code({twice, of_rank(1, right, "", "mine") + of_rank(1, right, "", "mine")}), 1);
  // What is logged for one rank in two files, as all else of a run.
  EXPECT_EQ(exit_code({of_rank(1, right), of_rank(1, wrong)}), 1);
  const Outcome outcome =
      run({"analyze", put("bad.jsonl", of_rank(0, right) + of_rank(1, wrong)), "--json"});
  EXPECT_THAT(outcome.out, HasSubstr("\"kind\":\"replica\",\"checkpoint\":\"layer_0_output\""));
  EXPECT_THAT(outcome.out, HasSubstr("differs from what another rank has of the same"));
  expect_error({"analyze", put("dims.jsonl", of_rank(0, right, ",\"dims\":\"h[xy]\""))},
               folder_ +
                   "/dims.jsonl:1: 'dims' is 'h[xy]': 'xy' is not one of tp, pp, ep, sp; write the "
                   "axes of the shape, as in \"t h[tp]\" or \"+[tp] t h\"");
}

// Breaks if the files of a folder that are of different sequences, or runs, were held together.
TEST_F(AnalyzeCommand, StrictHoldsOnlyRanksOfOneSequenceTogether) {
  std::filesystem::create_directories(folder_ + "/run");
  const auto file = [](int tp, const std::string& tokens) {
    return "{\"assay\":1,\"tokens\":[" + tokens + "]}\n" +
           line("layer_0_output", 0, {1, 2, 3, 4.0F + static_cast<float>(tp), 5, 6, 7, 8},
                ",\"rank\":{\"tp\":" + std::to_string(tp) + "}");
  };
  put("run/0.jsonl", file(0, "5,6"));
  put("run/1.jsonl", file(1, "7,8"));
  EXPECT_EQ(run({"analyze", "--strict", folder_ + "/run"}).exit_code, 0);
  put("run/1.jsonl", file(1, "5,6"));
  EXPECT_EQ(run({"analyze", "--strict", folder_ + "/run"}).exit_code, 1);
}

TEST_F(AnalyzeCommand, SeveralLogsGiveARateEach) {
  const std::string clean = put("a.jsonl", line("logits", 0, {1, 2, 3, 4, 5, 6, 7, 8}));
  const std::string bad = put("b.jsonl", line("logits", 0, {1, 2, std::nanf(""), 4, 5, 6, 7, 8}));
  const Outcome outcome = run({"analyze", clean, bad});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("b.jsonl"));
  EXPECT_THAT(outcome.out, HasSubstr("1/1"));
  rapidjson::Document json;
  json.Parse(run({"analyze", clean, bad, "--json"}).out.c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_EQ(json["logs"][0]["garbage_rate"].GetDouble(), 0);
  EXPECT_EQ(json["logs"][1]["garbage_rate"].GetDouble(), 1);
}

// Breaks if nanochat's first norm were accused, which has no weights and normalises an embedding
// that is normalised already, or the same of another network or layer passed.
TEST_F(AnalyzeCommand, StrictAcceptsANormOfANorm) {
  const std::vector<float> values = {1, -2, 3.5, 0.25, -5, 6, 0.5, 8};
  const auto code_of = [&](const std::string& arch, const std::string& input, const char* norm) {
    const std::string header = R"({"assay":1,"model":{"arch":")" + arch + "\"}}\n";
    const std::string log =
        put("norms.jsonl", header + line(input, 2, values) + line(norm, 2, values));
    return run({"analyze", "--strict", log}).exit_code;
  };
  EXPECT_EQ(code_of("nanochat", "embedding", "layer_0_attn_norm"), 0);
  EXPECT_EQ(code_of("", "embedding", "layer_0_attn_norm"), 0);
  EXPECT_EQ(code_of("llama", "embedding", "layer_0_attn_norm"), 1);
  EXPECT_EQ(code_of("bloom", "embedding", "layer_0_attn_norm"), 1) << "its norms have weights";
  EXPECT_EQ(code_of("nanochat", "embedding", "layer_0_ffn_norm"), 1) << "which is of a sum";
  EXPECT_EQ(code_of("nanochat", "layer_0_output", "layer_1_attn_norm"), 1);
}

// Breaks if right logs were accused of what their networks do: positions that two layers choose
// alike, one expert whose weight is on what it reads, a rotation by nothing or attention to one
// token behind a norm.
TEST_F(AnalyzeCommand, StrictAcceptsWhatOpsGiveBack) {
  const std::vector<float> values = {1, -2, 3.5, 0.25, -5, 6, 0.5, 8};
  const auto code_of = [&](const std::string& arch, const std::string& records) {
    const std::string header = R"({"assay":1,"model":{"arch":")" + arch + "\"}}\n";
    return run({"analyze", "--strict", put("back.jsonl", header + records)}).exit_code;
  };
  const auto pair = [&](const char* input, const char* output, int64_t token_idx,
                        const char* more = "") {
    return line(input, token_idx, values, more) + line(output, token_idx, values, more);
  };
  const std::vector<float> chosen = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const std::string indexed = line("layer_0_indexed", 9, chosen) +
                              line("layer_0_indexed", 10, chosen) +
                              line("layer_1_indexed", 10, chosen);
  EXPECT_EQ(code_of("deepseek32", indexed), 0);
  EXPECT_EQ(code_of("deepseek32", indexed + line("layer_1_indexed", 10, values)), 1) << "conflict";
  EXPECT_EQ(code_of("deepseek32", line("layer_0_q", 9, chosen)), 1);
  EXPECT_EQ(code_of("llama4", pair("layer_1_expert_out", "layer_1_routed_out", 3)), 0);
  EXPECT_EQ(code_of("qwen2moe", pair("layer_1_expert_out", "layer_1_routed_out", 3)), 1);
  EXPECT_EQ(code_of("qwen3", pair("layer_1_q_norm", "layer_1_q_rope", 1)), 0);
  EXPECT_EQ(code_of("qwen3", pair("layer_1_q_norm", "layer_1_q_rope", 2)), 1);
  EXPECT_EQ(code_of("qwen3", pair("layer_1_q", "layer_1_q_rope", 1)), 1) << "which has a norm";
  EXPECT_EQ(code_of("stablelm", pair("layer_1_q", "layer_1_q_rope", 1)), 0) << "which may have one";
  EXPECT_EQ(code_of("gemma4", pair("layer_1_v_norm", "layer_1_attn", 3, R"(,"n":100)")), 0);
  EXPECT_EQ(code_of("gemma4", pair("layer_1_v_norm", "layer_1_attn", 3)), 1);
}

// Breaks if right logs of Gemma 3n were accused: a step between residual streams that leaves the
// first as it is, and a cutoff that leaves no value of a gate.
TEST_F(AnalyzeCommand, StrictAcceptsStreamsAndCutoffs) {
  const std::vector<float> values = {1, -2, 3.5, 0.25, -5, 6, 0.5, 8};
  const std::vector<float> zeros(8);
  const auto code_of = [&](const std::string& arch, const std::string& records) {
    const std::string header = R"({"assay":1,"model":{"arch":")" + arch + "\"}}\n";
    return run({"analyze", "--strict", put("streams.jsonl", header + records)}).exit_code;
  };
  const auto both = [&](const char* one, const char* other, const std::vector<float>& of_both) {
    return line(one, 3, of_both) + line(other, 3, of_both);
  };
  EXPECT_EQ(code_of("gemma3n", both("layer_1_predictions", "layer_1_active", values)), 0);
  EXPECT_EQ(code_of("gemma3n", both("layer_1_q", "layer_1_ffn_gate", values)), 1);
  EXPECT_EQ(code_of("gemma3n", both("layer_1_ffn_cutoff", "layer_1_ffn_act", zeros)), 0);
  EXPECT_EQ(code_of("gemma3n", line("layer_1_ffn_gate", 3, zeros)), 1);
  EXPECT_EQ(code_of("gemma3", line("layer_1_ffn_act", 3, zeros)), 1);
}

}  // namespace
}  // namespace assay
