#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class WeightsCommand : public Program {
 protected:
  static std::string golden(const std::string& model, const std::string& type) {
    return source_path("golden/") + model + "/" + model + "-" + type + ".gguf";
  }
  // A copy of a file in which some bytes near its end, where tensors are, are others.
  std::string damaged(const std::string& path) {
    std::string bytes = contents(path);
    for (size_t i = bytes.size() - 4096; i < bytes.size() - 2048; ++i) bytes[i] ^= 0x35;
    return put("damaged.gguf", bytes);
  }

  const std::string f32_ = golden("tinyllama", "f32");
  const std::string q4_ = golden("tinyllama", "q4_k_m");
};

TEST_F(WeightsCommand, ExitCodesAreThoseOfAComparison) {
  const Outcome right = run({"weights", f32_, q4_});
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_THAT(right.out, StartsWith("IN PARITY  21 of 21 tensors"));
  EXPECT_EQ(right.err, "");
  const Outcome itself = run({"weights", f32_, f32_});
  EXPECT_EQ(itself.exit_code, 2) << itself.out;
  EXPECT_THAT(itself.err, HasSubstr(f32_ + ": is the same file as " + f32_));
  EXPECT_EQ(run({"weights", f32_, put("copy.gguf", contents(f32_))}).exit_code, 0);
  const Outcome wrong = run({"weights", f32_, damaged(q4_)});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, StartsWith("DIVERGED  "));
  EXPECT_EQ(wrong.err, "");
  const Outcome both_rounded = run({"weights", q4_, damaged(q4_)});
  EXPECT_EQ(both_rounded.exit_code, 2);
  EXPECT_THAT(both_rounded.out, StartsWith("INCOMPLETE  "));
  EXPECT_THAT(both_rounded.err, StartsWith("assay: not all tensors could be judged"));
  EXPECT_EQ(run({"weights", q4_, damaged(q4_), "--max-rel-l2", "0.001"}).exit_code, 1);
}

// What would break: a converter that loses the vocabulary, of which nothing else tells.
TEST_F(WeightsCommand, AFileWithoutItsVocabularyFails) {
  const std::string config =
      put("config.json",
          R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,"vocab_size":318,)"
          R"("num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,)"
          R"("max_position_embeddings":64,"rms_norm_eps":1e-5})");
  const std::string with = folder_ + "/with.gguf";
  const std::string without = folder_ + "/without.gguf";
  const std::vector<std::string> synth = {"synth", config, "--type", "F32", "-o"};
  const auto make = [&](const std::string& path, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = synth;
    arguments.push_back(path);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome made = run(arguments);
    ASSERT_EQ(made.exit_code, 0) << made.err;
  };
  make(without, {});
  make(with, {"--vocab", f32_});
  EXPECT_EQ(run({"weights", without, put("again.gguf", contents(without))}).exit_code, 0);
  const Outcome lost = run({"weights", with, without, "--tensors", "output_norm.weight"});
  EXPECT_EQ(lost.exit_code, 1) << lost.err;
  EXPECT_THAT(lost.out, HasSubstr("tokenizer.ggml.tokens"));
}

TEST_F(WeightsCommand, ReportsInJson) {
  const std::string report = folder_ + "/report.json";
  EXPECT_EQ(run({"weights", f32_, q4_, "--json", "-o", report}).exit_code, 0);
  EXPECT_THAT(contents(report), StartsWith(R"({"verdict":"match","pass":true,)"));
  EXPECT_THAT(contents(report), HasSubstr(R"("tensor":"output.weight","status":"rounded",)"));
}

// What would break: a CI server that shows a tensor as passed, or skipped, that is wrong or that
// nothing judged.
TEST_F(WeightsCommand, ReportsToCiServers) {
  const auto junit = [&](const std::vector<std::string>& files) {
    std::vector<std::string> arguments = {"weights", "--format", "junit"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    return run(arguments);
  };
  const Outcome right = junit({f32_, q4_});
  EXPECT_EQ(right.exit_code, 0);
  EXPECT_THAT(right.out, HasSubstr(R"(name="assay weights")"));
  EXPECT_THAT(right.out, HasSubstr(R"(tests="21" failures="0" errors="0" skipped="0")"));
  EXPECT_THAT(right.out,
              HasSubstr(R"(<testcase classname="tensor" name="output.weight" time="0"/>)"));
  EXPECT_THAT(right.out, HasSubstr("<system-out>IN PARITY  21 of 21"));
  const std::string other = damaged(q4_);
  const Outcome wrong = junit({f32_, other});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, HasSubstr(R"(failures="1")"));
  EXPECT_THAT(wrong.out, HasSubstr(R"(<failure type="wrong" message="F32 -&gt; )"));
  const Outcome unjudged = junit({q4_, other});
  EXPECT_EQ(unjudged.exit_code, 2);
  EXPECT_THAT(unjudged.out, HasSubstr(R"(<failure type="unjudged" message=")"));
  EXPECT_THAT(unjudged.out, HasSubstr("both files have it rounded"));
}

TEST_F(WeightsCommand, ReportsToGitHub) {
  const std::string summary = folder_ + "/summary.md";
  const std::vector<std::string> github = {"--format", "github", "-o", summary};
  const auto report = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "weights");
    arguments.insert(arguments.end(), github.begin(), github.end());
    return run(arguments);
  };
  EXPECT_EQ(report({f32_, q4_}).out, "");
  EXPECT_THAT(contents(summary), StartsWith("### &#9989; IN PARITY: 21 of 21 tensors"));
  std::filesystem::remove(summary);
  const std::string other = damaged(q4_);
  const Outcome wrong = report({f32_, other});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, StartsWith("::error file=" + other + ",title=tensor "));
  EXPECT_THAT(contents(summary), StartsWith("### &#10060; DIVERGED: 20 of 21 tensors"));
  EXPECT_THAT(contents(summary), HasSubstr("Compare again: <code>assay weights"));
  std::filesystem::remove(summary);
  EXPECT_EQ(report({q4_, other}).exit_code, 2);
  EXPECT_THAT(contents(summary), StartsWith("### &#9888;&#65039; INCOMPLETE: "));
  // A key that counts is no tensor.
  const std::string base = contents(f32_);
  const std::string key = "tokenizer.ggml.bos_token_id";
  std::string changed = base;
  changed[base.find(key) + key.size() + 4] ^= 1;
  const Outcome keys = report({f32_, put("key.gguf", changed)});
  EXPECT_EQ(keys.exit_code, 1);
  EXPECT_THAT(keys.out, HasSubstr("title=key " + key + "%3A differs::" + key + ": is "));
}

TEST_F(WeightsCommand, WhatCannotBeComparedIsAnError) {
  const std::string gpt2 = golden("gpt2", "f32");
  expect_error({"weights", f32_, gpt2}, gpt2 + ": is of the architecture gpt2, and " + f32_ +
                                            " of llama; give two files of one model");
  expect_error({"weights", f32_, q4_, "--tensors", "none*"},
               f32_ + ": --tensors none* matches no tensor; assay inspect lists them");
  for (const std::string value : {"0", "-1", "nan", "inf"}) {
    expect_error({"weights", f32_, q4_, "--k", value},
                 "--k: " + value +
                     " is not a number above 0; an error may be so many times what storing a "
                     "tensor as its type costs, such as 1.5");
  }
  for (const std::string value : {"0", "-1", "nan", "inf", "1", "2"}) {
    expect_error({"weights", f32_, q4_, "--max-rel-l2", value},
                 "--max-rel-l2: " + value +
                     " is not a number above 0 and below 1; zeros are off by 1; give the largest "
                     "rel_l2 of a tensor, such as 0.1");
  }
  EXPECT_EQ(run({"weights", f32_, q4_, "-o", q4_}).exit_code, 2);
  EXPECT_EQ(run({"weights", f32_}).exit_code, 2);
}

}  // namespace
}  // namespace assay
