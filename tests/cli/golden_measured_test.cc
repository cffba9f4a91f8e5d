// assay golden record|review|accept|verify of what Assay's own engine computes, on a copy of a
// golden in one type.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GoldenMeasured : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    for (const char* name : {"CI", "ASSAY_UPDATE"}) unsetenv(name);
    fs::create_directories(root());
    fs::copy(source_path("golden/gpt2"), root() + "/gpt2");
  }

  std::string root() const { return folder_ + "/golden"; }
  std::string path(const std::string& name) const { return root() + "/gpt2/" + name; }

  Outcome golden(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "golden");
    arguments.insert(arguments.end(), {"--folder", root(), "gpt2"});
    return run(arguments);
  }

  // Another hash and sums of one checkpoint, as if the engine had computed something else before.
  void change_snapshot(const std::string& key, const std::string& with) {
    std::string text = contents(path("snapshots.json"));
    const size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    text.replace(at, with.size(), with);
    std::ofstream(path("snapshots.json"), std::ios::binary) << text;
  }

  // The second checkpoint, layer_0_attn_norm, of the first case.
  std::string second_line() const {
    const std::string text = contents(path("snapshots.json"));
    const size_t first = text.find("\n    \"", text.find("\"values\""));
    const size_t second = text.find("\n    \"", first + 1) + 6;
    return text.substr(second, text.find('"', second) - second);
  }
};

// What would break: a change of the engine that `verify --snapshots` does not see, or puts at the
// wrong place.
TEST_F(GoldenMeasured, VerifyNamesTheFirstCheckpointWhoseBitsAreOthers) {
  Outcome outcome = golden({"verify", "--snapshots"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "unchanged  gpt2, 24 snapshots\n");
  const std::string line = second_line();
  change_snapshot(line, line[0] == '0' ? "1" : "0");
  outcome = golden({"verify", "--snapshots"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("CHANGED  gpt2, 24 snapshots\n"),
                    HasSubstr("gpt2 F32 exact haiku: 1 of 27 checkpoints change, the first is "
                              "layer_0_attn_norm; most layer_0_attn_norm, by 0.0"),
                    Not(HasSubstr("F32 fast haiku"))));
  fs::remove(path("snapshots.json"));
  outcome = golden({"verify", "--snapshots"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("snapshots.json: is missing"));
}

TEST_F(GoldenMeasured, ASnapshotWaitsAndItsSizeIsToldBeforeItIsTaken) {
  Outcome outcome = golden({"record", "--snapshots"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "gpt2: no snapshot changes\n");
  const std::string good = contents(path("snapshots.json"));
  const std::string line = second_line();
  // Another hash, and a first sum that is off by far more than k floors.
  const std::string hash(16, line[0] == '0' ? '1' : '0');
  const size_t sum = line.find(' ', 17) + 1;
  std::string wrong = line;
  wrong.replace(0, 16, hash);
  wrong[sum] = wrong[sum] == '-' ? '1' : '9';
  change_snapshot(line, wrong);
  outcome = golden({"record", "--snapshots"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("gpt2: pending; assay golden review gpt2\n"));
  EXPECT_TRUE(fs::exists(path("snapshots.json.new")));
  outcome = golden({"review"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("  F32 exact haiku: 1 of 27 checkpoints change, the first is "
                                     "layer_0_attn_norm; most layer_0_attn_norm, by "));
  outcome = golden({"accept"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const size_t told = outcome.out.find("gpt2 F32 exact haiku: 1 of 27 checkpoints change");
  const size_t taken = outcome.out.find("gpt2: accepted snapshots.json");
  EXPECT_LT(told, taken);
  EXPECT_NE(taken, std::string::npos);
  EXPECT_EQ(contents(path("snapshots.json")), good);
  EXPECT_EQ(golden({"verify", "--snapshots"}).exit_code, 0);
}

// What would break: floors that are lost, or that rise unseen.
TEST_F(GoldenMeasured, FloorsOfFastAreMeasuredAndARiseIsExitCodeOne) {
  Outcome outcome = golden({"record", "--fast-floors"});
  EXPECT_EQ(outcome.out, "gpt2: no floor changes\n") << outcome.err;
  const std::string good = contents(path("fast_floors.json"));
  std::string low = good;
  const size_t at = low.find("\"logits\": [0.0", low.find("\"type\": \"Q8_0\""));
  ASSERT_NE(at, std::string::npos);
  low.replace(low.find('[', at), low.find(']', at) - low.find('[', at), "[0.001, 0.001");
  std::ofstream(path("fast_floors.json"), std::ios::binary) << low;
  outcome = golden({"verify", "--fast-floors"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("CHANGED  gpt2, 13 measured prompts\n  gpt2 fast "
                                     "floors of Q8_0 "));
  outcome = golden({"record", "--fast-floors"});
  EXPECT_THAT(outcome.out, HasSubstr("1 rise, 0 fall, most that of logits: 0.001 -> 0.0"));
  EXPECT_EQ(golden({"review"}).exit_code, 1);
  EXPECT_EQ(golden({"accept"}).exit_code, 0);
  EXPECT_EQ(contents(path("fast_floors.json")), good);
}

// What would break: a floor that lets faults through, which no run of the engine exceeds.
TEST_F(GoldenMeasured, AFloorFarAboveLlamaCppsIsAProblem) {
  std::string wide = contents(path("fast_floors.json"));
  const size_t at = wide.find("\"logits\": [0.0", wide.find("\"type\": \"Q8_0\""));
  ASSERT_NE(at, std::string::npos);
  wide.replace(wide.find('[', at), wide.find(',', at) - wide.find('[', at), "[0.9");
  std::ofstream(path("fast_floors.json"), std::ios::binary) << wide;
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("fast_floors.json: lets 'logits' of fast Q8_0 haiku be 0.9 "
                                     "off, and llama.cpp is 0.0"));
}

// What would break: a floor of a model of which llama.cpp's error is not known may be anything.
TEST_F(GoldenMeasured, AFloorFarAboveFloat32sIsAProblem) {
  fs::copy(source_path("golden/granite"), root() + "/granite");
  const std::string floors = root() + "/granite/fast_floors.json";
  const std::string good = contents(floors);
  const auto verified = [&](const std::string& logits) {
    std::string text = good;
    const size_t at = text.find("\"logits\": [");
    text.replace(at, text.find(']', at) - at, "\"logits\": [" + logits);
    std::ofstream(floors, std::ios::binary) << text;
    return run({"golden", "verify", "--folder", root(), "granite"});
  };
  EXPECT_EQ(verified("0.02, 0.01").exit_code, 0);
  const Outcome outcome = verified("0.9, 0.01");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("fast_floors.json: lets 'logits' of fast Q4_K_M haiku be 0.9 off, and "
                        "its floor f32_with_f64_angles_vs_f64 is "));
  const Outcome unknown = verified("0.02, 0.01], \"layer_9_other\": [0.5, 0.5");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("has a floor of 'layer_9_other'"));
}

// What would break: what was not computed, for want of the model file, counts as unchanged.
TEST_F(GoldenMeasured, WithoutTheModelFileNothingIsUnchanged) {
  fs::create_directories(root() + "/smollm2");
  for (const char* name : {"manifest.json", "snapshots.json", "fast_floors.json"}) {
    fs::copy(source_path("golden/smollm2/") + name, root() + "/smollm2/" + name);
  }
  setenv("ASSAY_CACHE", folder_.c_str(), 1);
  for (const char* flag : {"--snapshots", "--fast-floors"}) {
    const Outcome outcome = run({"golden", "verify", flag, "--folder", root(), "smollm2"});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_THAT(outcome.out, testing::StartsWith("NOT CHECKED  smollm2, "));
    EXPECT_THAT(outcome.err, HasSubstr("assay: smollm2 Q4_1: the model file is not here, so it was "
                                       "not checked; fetch it as the manifest says"));
  }
  unsetenv("ASSAY_CACHE");
}

// What would break: what was not computed counts as checked beside what was.
TEST_F(GoldenMeasured, WithoutOneModelFileTheOthersAreChecked) {
  fs::copy(source_path("golden/granite"), root() + "/granite");
  fs::remove(root() + "/granite/granite-f32.gguf");
  const Outcome outcome = run({"golden", "verify", "--snapshots", "--folder", root(), "granite"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "NOT CHECKED  granite, 4 of 8 snapshots checked\n");
  EXPECT_THAT(outcome.err, HasSubstr("assay: granite F32: the model file is not here"));
}

// What would break: a model of F32 alone counts as checked, or as lacking its floors.
TEST_F(GoldenMeasured, WhereFastRoundsNothingThereAreNoFloorsToCheck) {
  fs::copy(source_path("golden/cohere2"), root() + "/cohere2");
  const Outcome outcome = run({"golden", "verify", "--fast-floors", "--folder", root(), "cohere2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "cohere2: fast rounds none of its types, no floors to check\n");
  EXPECT_EQ(run({"golden", "verify", "--folder", root(), "cohere2"}).exit_code, 0);
}

// What would break: what the engine computed is not missed once its file is gone.
TEST_F(GoldenMeasured, VerifyMissesWhatOtherGoldensHave) {
  fs::copy(source_path("golden/qwen3"), root() + "/qwen3");
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  for (const char* name : {"snapshots.json", "fast_floors.json"}) {
    fs::rename(path(name), folder_ + "/gone");
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(name) + ": is missing, and other goldens have"));
    fs::rename(folder_ + "/gone", path(name));
  }
}

// What would break: a user whose engine rounds activations, and who has no floor to hold it to.
TEST_F(GoldenMeasured, CompareHoldsALogOfFastToItsFloorsByName) {
  const std::string log = folder_ + "/fast.jsonl";
  const std::string manifest = path("manifest.json");
  const auto compare = [&](const std::string& floor) {
    return run({"compare", path("q8_0-ops.jsonl"), log, "--policy", manifest, "--floor", floor});
  };
  const std::string model = path("gpt2-q8_0.gguf");
  const std::vector<std::string> run_fast = {
      "run",     model, "--prompt",      "GPU haiku with word fifty-one: ",
      "-n",      "8",   "--math",        "fast",
      "--log",   log,   "--checkpoints", "ops",
      "--sketch"};
  ASSERT_EQ(run(run_fast).exit_code, 0);
  const Outcome outcome = compare("assay_fast_vs_f64");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(compare("f32_vs_f64").exit_code, 1);
  fs::remove(path("fast_floors.json"));
  EXPECT_THAT(compare("assay_fast_vs_f64").err, HasSubstr("fast_floors.json: is missing"));
}

// What would break: a golden of which a prompt has no snapshot, or one of another model file.
TEST_F(GoldenMeasured, VerifyReportsSnapshotsThatAreNotOfTheManifest) {
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  change_snapshot("\"prompt\": \"haiku\", \"positions\"", "\"prompt\": \"haikO\", \"positions\"");
  Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("has no snapshot of F32 exact haiku; assay golden "
                                           "record --snapshots gpt2"),
                                 HasSubstr("has a snapshot of F32 exact haikO")));
  std::ofstream(path("snapshots.json"), std::ios::binary) << "{}";
  outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("snapshots.json: 'schema' is missing"));
}

TEST_F(GoldenMeasured, NothingIsRecordedWhereGoldensAreNotToBeChanged) {
  setenv("ASSAY_UPDATE", "no", 1);
  EXPECT_EQ(golden({"record", "--snapshots"}).exit_code, 2);
  unsetenv("ASSAY_UPDATE");
  EXPECT_EQ(golden({"record", "--snapshots", "--oracle", "true"}).exit_code, 2);
}

}  // namespace
}  // namespace assay
