// A report of an earlier run must not pass for that of a run which ended with an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace assay {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class FailedReport : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    log_ = put("ref.jsonl", line("logits", 0, {1, 2, 3}));
    other_ = put("got.jsonl", line("logits", 0, {1, 2, 3}));
    report_ = folder_ + "/report";
  }

  // Runs a command that fails, with a report of an earlier run in its place.
  Outcome fail(std::vector<std::string> arguments) {
    put("report", "STALE failures=\"0\"");
    arguments.insert(arguments.end(), {"-o", report_});
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("assay: "));
    return outcome;
  }

  bool exists() const { return std::filesystem::exists(report_); }

  std::string log_;
  std::string other_;
  std::string report_;
};

TEST_F(FailedReport, OfJunitHoldsTheError) {
  const std::vector<std::vector<std::string>> commands = {
      {"compare", log_, folder_ + "/none", "--format", "junit"},
      {"compare", log_, other_, "--policy", folder_ + "/none", "--format", "junit"},
      {"compare", log_, other_, "--align", "x", "--format", "junit"},
      {"compare", log_, "--no-such-flag", "--format", "junit"},
      {"compare", log_, "--format", "junit"},
      {"conform", "no-such-engine", "--format", "junit"},
      {"weights", log_, other_, "--format", "junit"}};
  for (const auto& command : commands) {
    fail(command);
    const std::string text = contents(report_);
    EXPECT_THAT(text, HasSubstr("<testsuite id=\"0\""));
    EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
    EXPECT_THAT(text, HasSubstr("<error type=\"error\" message=\""));
    EXPECT_THAT(text, Not(HasSubstr("STALE")));
  }
  fail({"compare", log_, folder_ + "/none", "--format", "junit"});
  EXPECT_THAT(contents(report_), HasSubstr("/none: cannot open"));
}

TEST_F(FailedReport, ForGithubIsAnAnnotationAndASummary) {
  const Outcome outcome = fail({"compare", log_, folder_ + "/none", "--format", "github"});
  EXPECT_THAT(outcome.out, StartsWith("::error title=assay compare failed::" + folder_));
  EXPECT_THAT(contents(report_), HasSubstr("assay compare failed"));
  EXPECT_THAT(contents(report_), Not(HasSubstr("STALE")));
  EXPECT_THAT(run({"compare", log_, folder_ + "/none", "--format", "github"}).out,
              StartsWith("::error "))
      << "without a file, too";
}

TEST_F(FailedReport, OfAnyOtherFormatIsRemoved) {
  const std::string none = folder_ + "/none";
  const std::vector<std::vector<std::string>> commands = {
      {"compare", log_, none},
      {"compare", log_, none, "--json"},
      {"compare", log_, none, "--format", "html"},
      {"compare", log_, none, "--format", "xyz"},
      {"compare", log_, other_, none},
      {"matrix", log_, none},
      {"matrix", log_, none, "--json"},
      {"perf", none, none, "--format", "json"},
      {"conform", "no-such-engine"},
      {"invariance", "no-such-engine"}};
  for (const auto& command : commands) {
    fail(command);
    EXPECT_FALSE(exists()) << command.front();
  }
}

// Breaks if a mistyped -o lost what the command reads.
TEST_F(FailedReport, AnInputIsNotRemoved) {
  std::filesystem::create_directories(folder_ + "/runs");
  const std::string in_folder = put("runs/a.jsonl", contents(log_));
  const std::vector<std::vector<std::string>> commands = {
      {"compare", log_, other_, "-o", other_},
      {"compare", log_, other_, "--format", "junit", "-o", log_},
      {"compare", log_, folder_ + "/none", "-o", log_},
      {"compare", log_, other_, "--no-such-flag", "-o", other_},
      {"matrix", log_, folder_ + "/runs", folder_ + "/none", "-o", in_folder}};
  for (const auto& command : commands) {
    EXPECT_EQ(run(command).exit_code, 2);
    for (const std::string& input : {log_, other_, in_folder}) {
      EXPECT_EQ(contents(input), line("logits", 0, {1, 2, 3})) << command.back();
    }
  }
}

// Breaks if the log that was meant to be GOT were lost where it was named as -o alone.
TEST_F(FailedReport, WhatIsNoReportIsNotRemoved) {
  const std::string benchmark =
      put("base.json", "{\n  \"context\": {},\n  \"benchmarks\": []\n}\n");
  const std::string model = put("m.gguf", std::string("GGUF\3\0\0\0", 8));
  for (const std::string& kept : {other_, benchmark, model}) {
    const std::string was = contents(kept);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"compare", log_}, {"perf", benchmark}, {"weights", log_}}) {
      std::vector<std::string> all = command;
      all.insert(all.end(), {"-o", kept});
      EXPECT_EQ(run(all).exit_code, 2);
      EXPECT_EQ(contents(kept), was) << command.front();
    }
  }
}

// Breaks if a tensor of a folder of them were lost: by a report, an archive or a map, or by an
// error.
TEST_F(FailedReport, ATensorOfAnInputIsNotOverwritten) {
  std::filesystem::create_directories(folder_ + "/dump");
  const std::string dump = folder_ + "/dump";
  const std::string tensor = put("dump/layer_0_output.npy", "tensor");
  const std::vector<std::vector<std::string>> commands = {
      {"compare", log_, dump, "-o", tensor},
      {"compare", log_, dump, "--tokens", "x", "-o", tensor},
      {"analyze", dump, "--stats", "--numpy", tensor},
      {"import", dump, "-o", tensor},
      {"import", dump, "-o", folder_ + "/got.jsonl", "--suggest-map", tensor}};
  for (const auto& command : commands) {
    EXPECT_EQ(run(command).exit_code, 2);
    EXPECT_EQ(contents(tensor), "tensor") << command.front();
  }
  expect_error(commands.front(),
               tensor + ": the report would be part of its input " + dump + "; give another -o");
  const std::string got = folder_ + "/got.jsonl";
  expect_error(
      {"import", dump, "-o", got, "--suggest-map", folder_ + "/dump/../got.jsonl"},
      folder_ + "/dump/../got.jsonl: the map would overwrite the log; give another --suggest-map");
}

// Breaks if a report, a log, or what is removed where a command fails, took a file of a model's
// folder, by its name or as what that links to, as in the cache of Hugging Face.
TEST_F(FailedReport, AFileOfAModelFolderIsNotOverwritten) {
  std::filesystem::create_directories(folder_ + "/blobs");
  std::filesystem::create_directories(folder_ + "/model");
  const std::string model = folder_ + "/model";
  std::vector<std::string> files = {"tokenizer_config.json", "generation_config.json"};
  for (const std::string& name : files) put("model/" + name, "{}");
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    put("blobs/" + std::string(name) + ".blob", "{}");
    std::filesystem::create_symlink("../blobs/" + std::string(name) + ".blob", model + "/" + name);
    files.emplace_back(name);
    files.push_back("../blobs/" + std::string(name) + ".blob");
  }
  for (const std::string& name : files) {
    const std::string file = model + "/" + name;
    const std::vector<std::vector<std::string>> commands = {
        {"compare", log_, other_, "--model", model, "-o", file},
        {"compare", log_, other_, "--model", model, "--tokens", "x", "-o", file},
        {"weights", model, model, "-o", file},
        {"invariance", "assay", "--model", model, "--tokens", "1", "-o", file},
        {"run", model, "--tokens", "1", "--log", file},
        {"mutate", model, "--fault", "rope-base", "--tokens", "1", "--log", file}};
    for (const auto& command : commands) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.exit_code, 2) << command.front();
      EXPECT_EQ(contents(file), "{}") << command.front() << " " << name;
      if (std::ranges::count(command, "x") > 0) continue;  // fails before it is held to its inputs
      EXPECT_THAT(outcome.err, AnyOf(HasSubstr("would be part of its input " + model),
                                     HasSubstr("the log would overwrite the model")));
    }
  }
  // A report may lie beside them, the first time and the second.
  for (const char* text : {"", "{}"}) {
    if (*text != 0) put("model/r.json", text);
    const std::string err = run({"weights", model, log_, "-o", model + "/r.json"}).err;
    EXPECT_THAT(err, Not(HasSubstr("would be part"))) << err;
  }
}

// Breaks if an engine whose log is its model lost the model.
TEST_F(FailedReport, TheModelOfAnEngineIsNotItsLog) {
  const std::string model = put("m.gguf", "model");
  setenv("ASSAY_GGUF", model.c_str(), 1);
  setenv("ASSAY_LOG_FILE", model.c_str(), 1);
  setenv("ASSAY_TOKENS", "1,2", 1);
  setenv("ASSAY_SURFACE", "alone", 1);
  expect_error({"engine"},
               model + ": the log would overwrite the model; give another ASSAY_LOG_FILE");
  for (const char* name : {"ASSAY_GGUF", "ASSAY_LOG_FILE", "ASSAY_TOKENS", "ASSAY_SURFACE"}) {
    unsetenv(name);
  }
  EXPECT_EQ(contents(model), "model");
}

// Breaks if a log that a folder has by a link were removed by either name, or replaced.
TEST_F(FailedReport, AnInputThatAFolderLinksToIsNotRemoved) {
  std::filesystem::create_directories(folder_ + "/runs");
  const std::string target = put("out.jsonl", contents(log_));
  const std::string plain = put("out.txt", contents(log_));
  std::filesystem::create_symlink("../out.jsonl", folder_ + "/runs/b.jsonl");
  std::filesystem::create_symlink("../out.txt", folder_ + "/runs/c.jsonl");
  for (const std::string& output :
       {folder_ + "/runs/b.jsonl", folder_ + "/runs/c.jsonl", target, plain}) {
    const std::string runs = folder_ + "/runs";
    EXPECT_EQ(run({"compare", log_, runs, "--tokens", "x", "-o", output}).exit_code, 2);
    expect_error({"compare", log_, runs, "-o", output},
                 output + ": the report would be part of its input " + runs + "; give another -o");
    EXPECT_THAT(run({"analyze", runs, "--stats", "--numpy", output}).err,
                HasSubstr("the archive would be part of its input " + runs));
    setenv("GITHUB_STEP_SUMMARY", output.c_str(), 1);
    EXPECT_THAT(run({"compare", log_, runs, "--format", "github"}).err,
                HasSubstr("the summary would be part of its input " + runs));
    EXPECT_EQ(run({"compare", log_, runs, "--tokens", "x", "--format", "github"}).exit_code, 2);
    unsetenv("GITHUB_STEP_SUMMARY");
    for (const std::string& log : {target, plain}) {
      EXPECT_EQ(contents(log), contents(log_)) << output;
    }
    EXPECT_TRUE(std::filesystem::is_symlink(runs + "/b.jsonl")) << output;
  }
}

TEST_F(FailedReport, WhatIsNoReportOfTheCommandStays) {
  const std::string kept = put("kept.jsonl", "kept");
  EXPECT_EQ(run({"import", folder_ + "/none", "-o", kept}).exit_code, 2);
  EXPECT_EQ(run({"floors", log_, folder_ + "/none", "-o", kept}).exit_code, 2);
  EXPECT_EQ(run({"mutate", "--faults", "no-such-fault", "-o", kept}).exit_code, 2);
  EXPECT_EQ(contents(kept), "kept");
}

}  // namespace
}  // namespace assay
