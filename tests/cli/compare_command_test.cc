#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "assay/log/log_writer.h"
#include "base/new_file.h"
#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CompareCommand : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    ref_ = put("ref.jsonl", line("logits", 0, {1, 2, 3}) + line("logits", 1, {3, 2, 1}));
    same_ = put("same.jsonl", line("logits", 0, {1, 2, 3}) + line("logits", 1, {3, 2, 1}));
    wrong_ = put("wrong.jsonl", line("logits", 0, {1, 2, 3}) + line("logits", 1, {-3, 2, 1}));
  }
  std::string ref_;
  std::string same_;
  std::string wrong_;
};

TEST_F(CompareCommand, JsonIsAskedForAsElsewhere) {
  const Outcome outcome = run({"compare", ref_, wrong_, "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, run({"compare", ref_, wrong_, "--format", "json"}).out);
  EXPECT_EQ(run({"compare", ref_, wrong_, "--json", "--format", "csv"}).exit_code, 2);
}

// Heads that are equal, and sketches that are not: the column of max abs holds 0.
TEST_F(CompareCommand, ALargestErrorThatOnlySketchesTellIsSaidToBeTheirs) {
  const std::string policy = put("policy.json", R"({"default":{"max_abs":1e-2}})");
  const auto log = [&](const std::string& name, float last) {
    LogWriter writer(folder_ + "/" + name, {"", 2, true, true});
    writer.write("layer_0_output", 0, std::vector<float>{1, 2, 3, last});
    writer.close();
    return writer.path();
  };
  const std::string ref = log("sketch_ref.jsonl", 4);
  const Outcome outcome = run({"compare", ref, log("sketch_got.jsonl", 8), "--policy", policy});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("is over 0.01, by what sketch or summary tells of the values "
                                     "that are not logged"));
}

// Breaks if a log that holds nothing hid a divergence from a script that reads exit codes.
TEST_F(CompareCommand, OfSeveralLogsOneThatHoldsNothingHidesNoOutlier) {
  const std::string none =
      put("none.jsonl",
          R"({"checkpoint":"logits","token_idx":0,"dtype":"f32","shape":[3],"values":[],"n":3})"
          "\n");
  Outcome outcome = run({"compare", ref_, same_, wrong_, none});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith("OUTLIER  wrong.jsonl differs from ref.jsonl, same.jsonl,"));
  EXPECT_THAT(outcome.out,
              HasSubstr("; none.jsonl has no vote: its records prove nothing, or the others "
                        "lack some\n"));
  outcome = run({"compare", ref_, same_, none});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, StartsWith("CANNOT TELL  ref.jsonl, same.jsonl agree with each other"));
  EXPECT_THAT(outcome.err, HasSubstr("none.jsonl: parity with"));
  outcome = run({"compare", ref_, same_, wrong_, none, "--format", "json"});
  EXPECT_THAT(outcome.out, HasSubstr(R"("outlier":true,"unproved":false},)"));
  EXPECT_THAT(outcome.out, HasSubstr(R"("outlier":false,"unproved":true}],)"));
  EXPECT_THAT(outcome.out, HasSubstr(R"("verdict":"incomplete","pass":false)"));
  // Two that differ, without a majority.
  outcome = run({"compare", ref_, wrong_, none});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("no majority of the 2 agrees"));
  // Two of zeros do not outvote one that ran, from which they differ.
  const auto zeros = [&](const char* file) { return put(file, line("logits", 0, {0, 0, 0})); };
  outcome = run({"compare", ref_, zeros("zeros.jsonl"), zeros("more.jsonl")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith("CANNOT TELL"));
}

TEST_F(CompareCommand, ExitCodesTellParityFromDivergence) {
  EXPECT_EQ(run({"compare", ref_, same_}).exit_code, 0);
  EXPECT_EQ(run({"compare", ref_, same_}).err, "");
  const Outcome wrong = run({"compare", ref_, wrong_});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, StartsWith("DIVERGED  wrong"));
  EXPECT_THAT(wrong.out, HasSubstr("first divergence  logits at token 1: rel_l2 1.6 is over 0.01"));
  EXPECT_EQ(wrong.err, "");
}

// What would break: a script that gives one path twice reads like a proof.
// Breaks if a pass by the built-in tolerance did not say how wide that is, or hid a jump.
TEST_F(CompareCommand, APassWithoutAPolicySaysHowWideItIs) {
  const auto log = [&](const std::string& name, const std::vector<float>& errors) {
    std::string text;
    for (size_t layer = 0; layer < errors.size(); ++layer) {
      text += line(fmt::format("layer_{}_output", layer), 0, {1 + errors[layer], 1, 1});
    }
    return put(name, text);
  };
  const std::string ref = log("three.jsonl", {0, 0, 0});
  const std::string got = log("jump.jsonl", {2e-6F, 3e-3F, 4e-3F});
  const std::string width = "  tolerance         built-in: rel_l2 0.01, which is wide for float32";
  const Outcome jump = run({"compare", ref, got});
  EXPECT_EQ(jump.exit_code, 0);
  EXPECT_THAT(jump.out, HasSubstr(width));
  EXPECT_THAT(jump.err, HasSubstr("warning: the error jumps at layer 1, from 1.1"));
  const Outcome even = run({"compare", ref, log("even.jsonl", {1e-6F, 2e-6F, 3e-6F})});
  EXPECT_THAT(even.out, HasSubstr(width));
  EXPECT_EQ(even.err, "");
  const std::string policy = put("policy.json", R"({"default":{"rel_l2":1e-2}})");
  const Outcome chosen = run({"compare", ref, got, "--policy", policy});
  EXPECT_EQ(chosen.exit_code, 0);
  EXPECT_THAT(chosen.out, Not(HasSubstr("built-in")));
  EXPECT_EQ(chosen.err, "");
  EXPECT_THAT(run({"compare", ref, log("same3.jsonl", {0, 0, 0})}).out, Not(HasSubstr("built-in")));
  const std::string far = log("far.jsonl", {0, 0, 1});  // by 1 of the root of 3
  EXPECT_THAT(run({"compare", ref, far}).out, Not(HasSubstr("built-in")));
  const std::string wide = put("wide.json", R"({"default":{"rel_l2":0.9}})");
  const Outcome loose = run({"compare", ref, far, "--policy", wide});
  EXPECT_EQ(loose.exit_code, 0);
  EXPECT_THAT(loose.err,
              HasSubstr("1 record is within the policy by an error that is large beside "
                        "the values, the worst layer_2_output at token 0: rel_l2 0.577"));
  EXPECT_EQ(run({"compare", ref, got, "--policy", wide}).err, "");
}

TEST_F(CompareCommand, ALogThatIsComparedWithItselfIsSaidToShowNothing) {
  const Outcome outcome = run({"compare", ref_, ref_});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "assay: warning: " + ref_ +
                             " is compared with itself, which shows nothing: give the log that is "
                             "judged\n");
  EXPECT_THAT(run({"compare", ref_, ref_, "--format", "json"}).out,
              HasSubstr("is compared with itself"));
  // A folder of one log is that log.
  const std::string folder = ref_ + ".run";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(ref_, folder + "/log.jsonl");
  for (const auto& [a, b] :
       {std::pair(folder, folder + "/log.jsonl"), std::pair(folder + "/log.jsonl", folder)}) {
    EXPECT_THAT(run({"compare", a, b}).err, HasSubstr(b + " is compared with itself")) << a;
  }
}

TEST_F(CompareCommand, ZerosOnBothSidesAreNotParity) {
  const std::string zeros = put("zeros.jsonl", line("logits", 0, {0, 0}));
  const Outcome outcome = run({"compare", zeros, zeros});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, StartsWith("INCONCLUSIVE"));
  EXPECT_THAT(outcome.err, HasSubstr("is not proved: the 1 record in common holds nothing but"));
}

TEST_F(CompareCommand, WarnsOfATornLastLineAndSkipsIt) {
  const std::string torn = put("torn.jsonl", contents(same_) + "{\"checkpoint\":\"logits\",\"tok");
  const Outcome outcome = run({"compare", ref_, torn});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "assay: warning: " + torn + ":3: the last line is cut off and was left out\n");
}

// What would break: a report in the place of one of the logs that it is of.
TEST_F(CompareCommand, AReportIsNoLogOfTheFolderThatItIsOf) {
  const std::string folder = folder_ + "/logs";
  std::filesystem::create_directories(folder + "/below");
  const std::string log = put("logs/below/rank0.jsonl", contents(same_));
  for (const std::string& output : {log, folder + "/report.jsonl"}) {
    expect_error(
        {"compare", ref_, folder, "-o", output},
        output + ": the report would be part of its input " + folder + "; give another -o");
  }
  EXPECT_EQ(contents(log), contents(same_));
  EXPECT_EQ(run({"compare", ref_, folder, "-o", folder + "/report.txt"}).exit_code, 0);
  EXPECT_EQ(run({"compare", ref_, folder, "-o", folder + "/report.txt"}).exit_code, 0);
}

TEST_F(CompareCommand, WritesToAFileWholeOrNotAtAll) {
  const std::string output = folder_ + "/report.csv";
  EXPECT_EQ(run({"compare", ref_, wrong_, "--format", "csv", "-o", output}).exit_code, 1);
  EXPECT_THAT(contents(output), StartsWith("token_idx,max_abs_diff,"));
  EXPECT_EQ(run({"compare", ref_, ref_, "-o", folder_ + "/none/x"}).exit_code, 2);
  EXPECT_EQ(run({"compare", ref_, ref_, "-o", folder_}).exit_code, 2);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_FALSE(entry.path().string().ends_with(kTemporarySuffix)) << entry.path();
  }
}

// Breaks if the kernels were given sizes that are not the logs': they would read what is not
// theirs.
TEST_F(CompareCommand, AModelThatIsNotTheLogsIsRefused) {
  const std::string ref = put("r.jsonl", line("layer_0_output", 0, {1, 2, 3}));
  const std::string got = put("g.jsonl", line("layer_0_output", 0, {1, 2, 4}));
  const std::string model = source_path("golden/tinyllama/tinyllama-f32.gguf");
  const Outcome outcome = run({"compare", ref, got, "--model", model});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr(model + ": its layer_0_output has "));
  EXPECT_THAT(outcome.err, testing::HasSubstr("in the logs it has 3; give the model"));
  const std::string deep = put("d.jsonl", line("layer_99_q", 0, {1, 2, 3}));
  const std::string other = put("o.jsonl", line("layer_99_q", 0, {1, 2, 4}));
  EXPECT_THAT(run({"compare", deep, other, "--model", model}).err,
              testing::HasSubstr("the logs have layer_99_q"));
}

// Breaks if a message named the temporary file, which the user has never heard of.
TEST_F(CompareCommand, AFolderThatMayNotBeWrittenToIsNamedAsTheUserDid) {
  if (geteuid() != 0) GTEST_SKIP() << "user: needs root, to become somebody without rights";
  constexpr uid_t kNobody = 65534;
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  for (const char* format : {"table", "json", "csv", "html", "junit", "sarif", "github"}) {
    const std::string output = folder_ + "/report." + format;
    const Outcome outcome =
        run({"compare", ref_, same_, "--format", format, "-o", output}, kNobody);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, "assay: " + output +
                               ": cannot create: Permission denied; check "
                               "permissions and room on the disk\n");
    EXPECT_FALSE(std::filesystem::exists(output));
  }
}

TEST_F(CompareCommand, GithubTakesTheSummaryFromItsFile) {
  const std::string summary = put("summary.md", "before\n");
  setenv("GITHUB_STEP_SUMMARY", summary.c_str(), 1);
  const Outcome outcome = run({"compare", ref_, wrong_, "--format", "github"});
  EXPECT_EQ(run({"compare", ref_, same_, "--format", "github"}).out, "");
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_THAT(outcome.out,
              StartsWith("::error file=" + wrong_ + ",title=first divergence%3A logits::"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("###")));
  EXPECT_THAT(contents(summary), StartsWith("before\n### &#10060; DIVERGED"));
  EXPECT_THAT(contents(summary), HasSubstr("### &#9989; IN PARITY"));
}

// Breaks if the summary were appended to a log: the next comparison would find a broken line.
TEST_F(CompareCommand, GithubsSummaryIsNotAppendedToAnInput) {
  const std::string before = contents(same_);
  setenv("GITHUB_STEP_SUMMARY", same_.c_str(), 1);
  const Outcome outcome = run({"compare", ref_, same_, "--format", "github"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr(same_ + ": the summary would overwrite its input; give another "
                                "GITHUB_STEP_SUMMARY"));
  EXPECT_EQ(run({"compare", ref_, same_, "--format", "json"}).exit_code, 0);
  EXPECT_EQ(run({"compare", ref_, same_, "--format", "github", "-o", path("o.md")}).exit_code, 0);
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_EQ(contents(same_), before);
}

TEST_F(CompareCommand, AFullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "system: no /dev/full here";
  expect_error(
      {"compare", ref_, same_, "-o", "/dev/full"},
      "/dev/full: cannot write: No space left on device; check permissions and room on the "
      "disk");
}

// `assay compare ... | head` must end quietly, and still with the verdict's code.
TEST_F(CompareCommand, AReaderThatGoesAwayIsNoError) {
  const std::string err = folder_ + "/.err";
  const std::string shell = "bash -c '" + program_path("assay") + " compare " + ref_ + " " +
                            wrong_ + " --format json 2>" + err + " | true; exit ${PIPESTATUS[0]}'";
  EXPECT_EQ(WEXITSTATUS(std::system(shell.c_str())), 1);
  EXPECT_EQ(contents(err), "");
}

TEST_F(CompareCommand, TheCommandItShowsIsTheOneToType) {
  const std::string policy = put("a policy.json", R"({"default":{"rel_l2":0.5}})");
  const Outcome outcome = run({"compare", ref_, wrong_, "--policy", policy, "--align", "0",
                               "--quarantine", "off", "--strict-argmax"});
  EXPECT_THAT(outcome.out,
              HasSubstr("everything: assay compare " + ref_ + " " + wrong_ + " --policy '" +
                        policy + "' --align=0 --quarantine off --strict-argmax --format json"));
}

// Breaks if a flag that decides what is compared were left out, or one that changes nothing were
// repeated.
TEST_F(CompareCommand, TheCommandItShowsHasEachFlagThatMatters) {
  const Outcome outcome = run({"compare",
                               "--map-got",
                               "llama.cpp",
                               "--map",
                               "transformers",
                               ref_,
                               wrong_,
                               "--checkpoints",
                               "log*",
                               "--tokens",
                               "0..1",
                               "--align",
                               "auto",
                               "--quarantine=exclude",
                               "--strict-argmax=false",
                               "--allow-missing",
                               "logits",
                               "--allow-missing",
                               "log*",
                               "--evidence",
                               "any",
                               "--format",
                               "table",
                               "-o",
                               "-"});
  EXPECT_THAT(outcome.out,
              HasSubstr("everything: assay compare " + ref_ + " " + wrong_ +
                        " --evidence any --allow-missing logits --allow-missing 'log*' --tokens "
                        "0..1 --checkpoints 'log*' --map transformers --map-got llama.cpp "
                        "--format json"));
}

TEST_F(CompareCommand, PublishedLogsGiveThePublishedTable) {
  const std::string logs = source_path("tests/data/seed_logs/");
  const Outcome outcome =
      run({"compare", logs + "llama_hidden_states.jsonl", logs + "our_hidden_states.jsonl",
           "--format", "csv", "--quarantine", "off"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("\n7,1.00986405e+18,1.00986405e+17,PICASSO-LLAMA,worker-orcd,logits,"));
  EXPECT_THAT(outcome.out, HasSubstr("\n8,16.3836632,6.27667048,"));
  EXPECT_THAT(outcome.out, HasSubstr("\n9,46581.1395,4660.42826,"));
}

// What comes from a pipe can be read once, and a comparison reads it again.
TEST_F(CompareCommand, LogsMayComeFromPipes) {
  const auto shell = [&](const std::string& command) {
    const int status = std::system(("bash -c '" + command + "' > " + folder_ + "/.o 2>&1").c_str());
    return WEXITSTATUS(status);
  };
  const std::string program = program_path("assay") + " ";
  EXPECT_EQ(shell(program + "compare <(cat " + ref_ + ") " + same_), 0)
      << contents(folder_ + "/.o");
  EXPECT_EQ(shell("cat " + wrong_ + " | " + program + "compare " + ref_ + " -"), 1);
  EXPECT_THAT(contents(folder_ + "/.o"), HasSubstr("first divergence  logits at token 1"));
  EXPECT_THAT(contents(folder_ + "/.o"), HasSubstr("compare " + ref_ + " - --format json"));
  EXPECT_EQ(shell("cat " + ref_ + " | " + program + "analyze -"), 0);
  const std::string archive = path("piped.npz");
  EXPECT_EQ(shell("cat " + ref_ + " | " + program + "analyze - --numpy " + archive), 0);
  EXPECT_EQ(contents(archive).substr(0, 2), "PK");
  EXPECT_EQ(shell(program + "analyze " + ref_ + " --compare <(cat " + same_ + ")"), 0);
  EXPECT_EQ(shell(program + "compare " + ref_ + " - < /dev/null"), 2);
  EXPECT_EQ(shell("TMPDIR=/none " + program + "compare <(cat " + ref_ + ") " + same_), 2);
  EXPECT_THAT(contents(folder_ + "/.o"),
              HasSubstr("set TMPDIR to a folder that can be written to"));
}

TEST_F(CompareCommand, WhatIsEmptyIsNotEverything) {
  EXPECT_THAT(run({"compare", ref_, same_, "--tokens", ""}).err,
              HasSubstr("--tokens: '' is not a range"));
  EXPECT_EQ(run({"compare", ref_, same_, "--tokens", ""}).exit_code, 2);
  EXPECT_EQ(run({"compare", ref_, same_, "--checkpoints", ""}).exit_code, 2);
  expect_error({"compare", ref_, same_, "--policy", folder_},
               folder_ + ": is a directory; give the path of a file");
}

TEST_F(CompareCommand, AnotherModelThanTheLogsIsTold) {
  const std::string folder = source_path("golden/tinyllama/tinyllama-");
  const std::string ref = folder_ + "/r.jsonl";
  const std::string got = folder_ + "/g.jsonl";
  const std::vector<std::string> tokens = {"--tokens", "1,45,120,7", "--values", "all"};
  const auto log = [&](std::vector<std::string> arguments, const std::string& path) {
    arguments.insert(arguments.end(), tokens.begin(), tokens.end());
    arguments.insert(arguments.end(), {"-n", "0", "--checkpoints", "ops", "--log", path});
    EXPECT_EQ(run(arguments).exit_code, 0);
  };
  log({"run", folder + "f32.gguf"}, ref);
  log({"mutate", folder + "f32.gguf", "--fault", "scale-missing"}, got);
  const Outcome right = run({"compare", ref, got, "--model", folder + "f32.gguf"});
  EXPECT_EQ(right.exit_code, 1);
  EXPECT_EQ(right.err, "");
  const Outcome other = run({"compare", ref, got, "--model", folder + "q4_k_m.gguf"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, StartsWith("assay: warning: " + folder +
                                    "q4_k_m.gguf is not the file that the logs are of"));
}

TEST_F(CompareCommand, AReportDoesNotOverwriteItsInput) {
  const std::string log = put("a.jsonl", line("logits", 0, {1, 2}));
  expect_error({"compare", log, log, "-o", log},
               log + ": the report would overwrite its input; give another -o");
  EXPECT_EQ(contents(log), line("logits", 0, {1, 2}));
  const std::string map = put("map.json", "{\"rules\":[]}");
  for (const char* flag : {"--map", "--map-ref", "--map-got"}) {
    expect_error({"compare", log, log, flag, map, "-o", map},
                 map + ": the report would overwrite its input; give another -o");
  }
}

// The CSV of a hostile log is safe to look at: no escape sequence, no line of its own.
TEST_F(CompareCommand, HostileNamesAreEscapedInCsv) {
  const std::string log = put("a.jsonl", line("x\\n::error::y\\u001b[31m", 0, {1, 2}));
  const Outcome outcome = run({"compare", log, log, "--format", "csv"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(",x\\x0a::error::y\\x1b[31m,"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2);
}

// A warning may name a path, and a path may hold anything.
TEST_F(CompareCommand, HostilePathsAreEscapedInWarnings) {
  std::vector<float> logits(62, 1.0F);
  const std::string log = put("a.jsonl", line("logits", 0, logits));
  logits.resize(64);
  const std::string longer = put("e\x1b[31mvil.jsonl", line("logits", 0, logits));
  const std::string told = run({"compare", log, longer}).err;
  EXPECT_THAT(told, HasSubstr("e\\x1b[31mvil.jsonl"));
  EXPECT_EQ(told.find('\x1b'), std::string::npos);
}

// Breaks if causes were looked for with weights of another network than the logs', or if equal logs
// passed beside a model that they cannot be of.
TEST_F(CompareCommand, AModelOfAnotherArchitectureIsRefused) {
  const std::string llama = source_path("golden/tinyllama/tinyllama-f32.gguf");
  const std::string right = folder_ + "/right.jsonl";
  const std::string wrong = folder_ + "/wrong.jsonl";
  run({"run", llama, "--tokens", "1,20,30", "-n", "1", "--log", right});
  run({"mutate", llama, "--fault", "rope-base", "--tokens", "1,20,30", "-n", "1", "--log", wrong});
  EXPECT_EQ(run({"compare", right, wrong, "--model", llama}).exit_code, 1);
  std::filesystem::copy(right, folder_ + "/copy.jsonl");
  for (const std::string& got : {wrong, folder_ + "/copy.jsonl"}) {
    const Outcome other =
        run({"compare", right, got, "--model", source_path("golden/gpt2/gpt2-f32.gguf")});
    EXPECT_EQ(other.exit_code, 2) << got;
    EXPECT_THAT(other.err, HasSubstr("gpt2-f32.gguf: is of the architecture gpt2, and the log"));
  }
}

}  // namespace
}  // namespace assay
