// assay run --follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <set>

#include "tests/cli/run_command.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing_support::TinyModel;

class FollowCommand : public RunCommand {};

// Breaks if another token than the reference's were evaluated, or a header ended the prompt
// elsewhere: then the two logs could not be held against each other to their end.
TEST_F(FollowCommand, AReferenceIsEvaluatedToItsLastPosition) {
  const std::string ref = path("ref.jsonl");
  const std::string got = path("got.jsonl");
  const auto generated = run_json({"run", kModel, "--prompt", "GPU haiku", "-n", "12",
                                   "--ignore-eos", "--log", ref, "--sketch"});
  const auto followed = run_json({"run", kModel, "--follow", ref, "--log", got, "--sketch"});
  EXPECT_EQ(contents(got), contents(ref)) << "the same engine computes the same";
  EXPECT_EQ(followed["tokens"], generated["tokens"]);
  ASSERT_EQ(followed["generated"].Size(), 11U) << "the last one was not evaluated";
  for (rapidjson::SizeType i = 0; i < 11; ++i) {
    EXPECT_EQ(followed["generated"][i], generated["generated"][i]);
  }
  const Outcome plain = run({"run", kModel, "--follow", ref});
  EXPECT_EQ(plain.out, followed["text"].GetString() + std::string("\n"));
  EXPECT_THAT(plain.err, HasSubstr("followed 11 tokens"));
}

// Breaks if a golden, which other engines recorded, could not be followed to its end.
TEST_F(FollowCommand, AGoldenIsFollowedAndPassesWhole) {
  const std::string golden = source_path("golden/tinyllama/q8_0.jsonl");
  const std::string got = path("got.jsonl");
  run_json({"run", kModel, "--follow", golden, "--log", got, "--sketch"});
  const Outcome compared = run({"compare", golden, got, "--policy",
                                source_path("golden/tinyllama/manifest.json"), "--format", "json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.out << compared.err;
  rapidjson::Document json;
  json.Parse(compared.out.c_str());
  EXPECT_EQ(json["summary"]["compared"].GetInt(), 132);
  EXPECT_EQ(json["summary"]["argmax_agree"].GetInt(), 33);
}

// Weights that leave two tokens equal but for the last bits: --math fast chooses another one.
TEST_F(FollowCommand, ASplitAtATieIsPassedByFollowing) {
  const std::string ref = path("ref.jsonl");
  const std::string own = path("own.jsonl");
  const std::string got = path("got.jsonl");
  const auto log = [&](const std::string& file, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",      kModel,     "--log", file,
                                          "--sketch", "--values", "all"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments);
  };
  const std::vector<std::string> prompt = {"--tokens", "1,45,8", "-n", "20", "--ignore-eos"};
  std::vector<std::string> fast = prompt;
  fast.insert(fast.end(), {"--math", "fast"});
  const auto exact = log(ref, prompt);
  ASSERT_NE(exact["generated"], log(own, fast)["generated"]) << "there is no split to pass";
  const auto followed = log(got, {"--follow", ref, "--math", "fast"});
  EXPECT_EQ(records(got), records(ref));
  for (rapidjson::SizeType i = 0; i < 19; ++i) {
    EXPECT_EQ(followed["generated"][i], exact["generated"][i]);
  }
  const std::string policy = put("policy.json", R"({"default":{"rel_l2":0.1}})");
  const Outcome compared = run({"compare", ref, got, "--policy", policy, "--format", "json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.out << compared.err;
  rapidjson::Document json;
  json.Parse(compared.out.c_str());
  EXPECT_EQ(json["summary"]["compared"].GetInt64(), static_cast<int64_t>(records(ref).size()));
}

TEST_F(FollowCommand, WhatCannotBeFollowedIsTold) {
  const std::string model = tiny();
  const std::string header = "{\"assay\":1,\"tokens\":[1,2]}\n";
  const std::string ref = put("ref.jsonl", header + line("logits", 1, {0, 0, 1, 0, 0}));
  EXPECT_EQ(run({"run", model, "--follow", ref}).exit_code, 0);
  for (const char* flag : {"-n", "--temp", "--top-k", "--top-p", "--seed", "--prompt", "--tokens",
                           "--prompt-file", "--inject"}) {
    const Outcome outcome = run({"run", model, "--follow", ref, flag, "1"});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  expect_error({"run", model, "--follow", ref, "--ignore-eos"},
               "--ignore-eos excludes --follow; see assay run --help");
  EXPECT_EQ(run({"run", model, "--follow", ""}).exit_code, 2);
  expect_error({"run", model, "--follow", path("none")},
               path("none") + ": cannot open: No such file or directory; check the path");
  expect_error({"run", model, "--follow", ref, "--log", ref},
               ref + ": the log would overwrite its input; give another --log");
  expect_error({"run", model, "--follow", put("gap.jsonl", header + line("embedding", 2, {1}))},
               path("gap.jsonl") +
                   ": the token at position 2 is not known: it is what the logits at 1 choose, and "
                   "it has none; log the reference with its logits at each token, with a summary "
                   "or all values");
  expect_error({"run", model, "--follow",
                put("vocabulary.jsonl", "{\"assay\":1,\"tokens\":[5]}\n" + line("x", 0, {1}))},
               path("vocabulary.jsonl") +
                   ": the header's token 5 is not in the model's vocabulary of 5; follow a "
                   "reference of this model");
  const std::string sequence = R"({"assay":1,"tokens":[[1,2]])";
  const std::string last = "}\n" + line("logits", 1, {0, 0, 1, 0, 0}, R"(,"sequence":"0")");
  EXPECT_EQ(run({"run", model, "--follow", put("one.jsonl", sequence + last)}).exit_code, 0);
  expect_error(
      {"run", model, "--follow", put("mask.jsonl", sequence + R"(,"mask":[[0,1]])" + last)},
      path("mask.jsonl") +
          ": its header says that some tokens are padding; follow a log of the prompt alone");
  std::string many = "{\"assay\":1,\"tokens\":[1]}\n";
  for (int i = 0; i < 17; ++i) many += line("logits", i, {0, 0, 1, 0, 0});
  expect_error(
      {"run", model, "--follow", put("many.jsonl", many)},
      path("many.jsonl") + ": has 17 positions, the model's context 16; follow a shorter log");
}

// Breaks if the header did not say that tokens were sampled: they are not the likeliest.
TEST_F(FollowCommand, ASampledRunIsNotFollowed) {
  const std::string ref = path("ref.jsonl");
  run_json({"run", kModel, "--tokens", "1,20,30", "-n", "4", "--temp", "3", "--top-k", "9",
            "--seed", "4", "--log", ref});
  expect_error({"run", kModel, "--follow", ref},
               ref +
                   ": the tokens after its prompt were sampled (temp 3, top-k 9, seed 4), and a "
                   "log does not name them; follow a log of a run that chooses the likeliest "
                   "token, or give the prompt and what was generated with --tokens");
}

// Breaks if a sequence saw what the one before it left in the cache or in a recurrent state, or its
// records were another's.
TEST_F(FollowCommand, EachSequenceIsEvaluatedByItself) {
  const std::string ref =
      put("ref.jsonl", R"({"assay":1,"tokens":[[1,20,30,41],[1,40]],)"
                       R"("sequences":["first","0"]})"
                       "\n" +
                           line("x", 0, {1}, R"(,"sequence":"first")") + line("x", 1, {1}));
  for (const std::string& model : {kModel, source_path("golden/mamba2/mamba2-f32.gguf")}) {
    const std::string got = path("got.jsonl");
    run_json({"run", model, "--follow", ref, "--log", got, "--checkpoints", "ops", "--sketch"});
    std::string alone;
    for (const std::string tokens : {"1,20,30,41", "1,40"}) {
      const std::string one = path("one.jsonl");
      run_json({"run", model, "--tokens", tokens, "-n", "0", "--log", one, "--checkpoints", "ops",
                "--sketch"});
      const std::string text = contents(one);
      alone += text.substr(text.find('\n') + 1);
    }
    std::string records = contents(got);
    EXPECT_THAT(records.substr(0, records.find('\n')),
                HasSubstr(R"("tokens":[[1,20,30,41],[1,40]],"sequences":["first","0"])"));
    records.erase(0, records.find('\n') + 1);
    const std::string name = R"("sequence":"first",)";
    size_t named = 0;
    for (size_t at = records.find(name); at != std::string::npos; at = records.find(name, at)) {
      records.erase(at, name.size());
      ++named;
    }
    EXPECT_GT(named, 10U);
    EXPECT_EQ(records, alone) << model;
  }
  expect_error({"run", kModel, "--follow", ref, "--replay-routing", ref},
               ref +
                   ": has several sequences, and routing is replayed of one; follow the log of a "
                   "single sequence");
}

}  // namespace
}  // namespace assay
