// assay golden list|verify|record|review|accept|reject, on a golden that a small script records.

#include "tests/cli/golden_command.h"

#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "tests/support/paths.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::StartsWith;

TEST_F(GoldenCommand, ListShowsEachFixtureWithItsState) {
  Outcome listed = golden({"list"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, testing::ContainsRegex("tiny +F32 +haiku +layers +f32.jsonl +recorded"));
  EXPECT_THAT(listed.out, HasSubstr("2 fixtures of 1 model\n"));
  record("1e-6");
  EXPECT_THAT(golden({"list"}).out, AllOf(testing::ContainsRegex("f32.jsonl +pending"),
                                          testing::ContainsRegex("long.jsonl +recorded"),
                                          HasSubstr("1 to review: assay golden review")));
  fs::remove(path("long.jsonl"));
  listed = golden({"list"});
  EXPECT_EQ(listed.exit_code, 2);
  EXPECT_THAT(listed.out, testing::ContainsRegex("long.jsonl +missing"));
}

TEST_F(GoldenCommand, VerifyPassesWhatIsAsStated) {
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "verified  tiny, 2 fixtures; layers within 3e-06, logits within 1.2e-05 (3 x "
            "f32_vs_f64)\n");
  EXPECT_EQ(golden({"verify", "tiny", "tiny"}).out, outcome.out) << "named twice, checked once";
  // Breaks if an engine that is held to no snapshot looked as if it were.
  EXPECT_THAT(outcome.err, HasSubstr("snapshots.json is not there, nor in another golden: that the "
                                     "engine still computes what it did was not verified"));
  EXPECT_THAT(golden({"verify", "--json"}).out,
              HasSubstr(R"("allowed":[{"type":"F32","k":3,"floor":"f32_vs_f64","layers":3e-06,)"));
}

TEST_F(GoldenCommand, VerifyWarnsOfWideTolerances) {
  golden_->write("", "");
  replace_in(path("manifest.json"), "\"k\": 3", "\"k\": 9");
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("tiny: k is 9, and 3 is usual"));
  EXPECT_THAT(golden({"verify", "--json"}).out, Not(HasSubstr(R"("wide_tolerances":[])")));
}

// Breaks if a golden whose floors let anything pass is verified.
TEST_F(GoldenCommand, VerifyRejectsTolerancesThatHoldNothing) {
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"\"max\": 1e-06", "\"max\": 3e-01"}, "F32: 'output' may be 0.9 off (3 x 0.3), and "},
      {{"\"max\": 4e-06", "\"max\": 1.1e-04"},
       "manifest.json: F32: 'logits' may be 0.00033 off (3 x 0.00011), and float32 does not cost "
       "more than 3 x 0.0001; assay golden record tiny"}};
  for (const auto& [edit, message] : cases) {
    golden_->write("", "");
    replace_in(path("manifest.json"), edit.first, edit.second);
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("NOT VERIFIED  tiny, 1 problem"));
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

// Breaks if a recording of which half is the old one is pending as one.
TEST_F(GoldenCommand, AnOracleWritesAllThatTheManifestNames) {
  const auto before = golden_->contents();
  expect_refused(golden({"record", "tiny", "--oracle",
                         TinyGolden::command() + " && rm $ASSAY_GOLDEN_OUT/tiny/long.jsonl"}),
                 "the oracle did not write 1 of the 2 logs that the manifest names: long.jsonl; "
                 "fix the oracle; nothing was recorded");
  EXPECT_EQ(golden_->contents(), before);
}

// Breaks if a fixture, a type or a model could go unseen, or come without being listed.
TEST_F(GoldenCommand, VerifyReportsWhatTheInventoryHasAndTheGoldensLackAndTheReverse) {
  const std::string listed = golden({"list", "--inventory"}).out;
  EXPECT_TRUE(listed.ends_with("tiny F32 haiku layers\ntiny F32 long layers\n")) << listed;
  const std::pair<std::string, const char*> cases[] = {
      {listed + "other F32 haiku ops\nother F32 long ops\n",
       "inventory.txt: lists 2 fixtures of other: all are missing"},
      {listed + "tiny F16 haiku layers\n", "lists 1 fixture of tiny F16: all are missing"},
      {listed + "tiny F32 haiku ops  # comment\n", "lists tiny F32 haiku ops, which is missing"},
      {"tiny F32 haiku layers\n", "does not list tiny F32 long layers, which exists"},
      {"tiny F32 haiku\n", "inventory.txt:1: is not MODEL TYPE PROMPT SET"},
      {"\ntiny F32 haiku layers more\n", "inventory.txt:2: is not MODEL TYPE PROMPT SET"},
      {listed + listed, "inventory.txt:7: lists tiny F32 haiku layers twice"}};
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    put("golden/inventory.txt", text);
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  put("golden/inventory.txt", listed + "other F32 haiku ops\n");
  EXPECT_EQ(golden({"verify", "tiny"}).exit_code, 0) << "another model is not asked for";
  fs::remove(golden_->root() + "/inventory.txt");
  const Outcome named = golden({"verify", "tiny"});
  EXPECT_EQ(named.exit_code, 0);
  EXPECT_THAT(named.err, HasSubstr("warning: "));
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("inventory.txt: is missing, so a golden that is removed is not missed; "));
}

TEST_F(GoldenCommand, AcceptingUpdatesTheInventoryAndSaysSo) {
  record("0", "one_log");
  const Outcome outcome = golden({"accept"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("inventory.txt: tiny F32 long layers is removed\n"));
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  EXPECT_THAT(contents(golden_->root() + "/inventory.txt"),
              testing::EndsWith("\ntiny F32 haiku layers\n"));
}

// Each would let a test run against something else than what the manifest says.
TEST_F(GoldenCommand, VerifyFailsClosedAndNamesTheCommandThatMends) {
  fs::create_directories(golden_->root() + "/generate");
  const std::string pins = golden_->root() + "/generate/requirements.txt";
  const struct {
    const char* name;
    std::function<void()> damage;
    const char* message;
  } cases[] = {
      {"schema", [&] { replace_in(path("manifest.json"), "\"schema\": 2", "\"schema\": 1"); },
       "'schema' is 1, this program reads 2"},
      {"no JSON", [&] { put("golden/tiny/manifest.json", "{"); }, "not valid JSON"},
      {"log", [&] { replace_in(path("f32.jsonl"), "layer_0", "layer_1"); },
       "f32.jsonl: is not what the manifest states: its SHA-256 differs; restore it with git "
       "checkout, or record it again: assay golden record tiny"},
      {"empty log", [&] { put("golden/tiny/f32.jsonl", ""); }, "f32.jsonl: is not what the mani"},
      {"no log", [&] { fs::remove(path("f32.jsonl")); }, "f32.jsonl: is missing"},
      {"model", [&] { put("golden/tiny/tiny-f32.gguf", "GGUF of tinY"); },
       "tiny-f32.gguf: is another model than the manifest states"},
      {"no model", [&] { fs::remove(path("tiny-f32.gguf")); }, "tiny-f32.gguf: is missing"},
      {"oracle", [&] { put("golden/generate/requirements.txt", "# x\nNum-Py == 2.4.7  # y\n"); },
       "was recorded with num_py 2.4.6"},
      {"tokens",
       [&] { replace_in(path("manifest.json"), "\"tokens\": [\n    1", "\"tokens\": [\n 9"); },
       "f32.jsonl: is of other tokens than the prompt 'haiku'"},
      {"name",
       [&] { replace_in(path("manifest.json"), "\"model\": \"tiny\"", "\"model\": \"tony\""); },
       "is of the model 'tony', its folder is 'tiny'"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    std::ofstream(pins) << "num_py==2.4.6\nother==1\n";
    golden_->write("", "");
    ASSERT_EQ(golden({"verify"}).exit_code, 0);
    test.damage();
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, StartsWith("NOT VERIFIED  tiny, "));
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(test.message), HasSubstr("assay golden record t")));
    EXPECT_EQ(golden({"list"}).exit_code, 2);
  }
}

// Breaks if a golden could lose most of its records with a manifest that fits what is left.
// Breaks if a file that cannot be read were reported as changed, with the advice to record it
// again.
TEST_F(GoldenCommand, WhatCannotBeReadIsNotSaidToHaveChanged) {
  for (const char* name : {"f32.jsonl", "tiny-f32.gguf"}) {
    golden_->write("", "");
    fs::remove(path(name));
    ASSERT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(name) + ": is not a regular file; "));
    EXPECT_THAT(outcome.err, Not(HasSubstr("SHA-256")));
    fs::remove(path(name));
  }
}

TEST_F(GoldenCommand, ALogThatHoldsLessThanItsSetAndPositionsIsRefused) {
  const auto before = golden_->contents();
  const std::string& whole = before.at("f32.jsonl");
  const auto without = [&](const std::string& text) {
    std::string left;
    std::istringstream lines(whole);
    for (std::string each; std::getline(lines, each);) {
      if (each.find(text) == std::string::npos) left += each + "\n";
    }
    return left;
  };
  const std::string last = whole.substr(whole.rfind('\n', whole.size() - 2) + 1);
  std::string more = last;
  more.replace(more.find("logits"), 6, "layer_0_q");
  std::string wider = last;
  wider.insert(1, "\"n\": 9999, ");
  const struct {
    std::string log;
    std::string message;
  } cases[] = {
      {without("logits"), "has no 'logits', which belongs to the set 'layers'"},
      {without("\"layer_0_output\""), "has no 'layer_0_output', which belongs to the set 'layers'"},
      {without("\"token_idx\": 3"), "has no 'embedding' at 3, the manifest states all 4 positions"},
      {without("\"token_idx\": 0"), "has no 'embedding' at 0, the manifest states all 4 positions"},
      {whole.substr(0, whole.size() - last.size()),
       "has no 'logits' at 3, the manifest states all 4 positions"},
      {whole + last, "has 'logits' at 3 twice"},
      {whole.substr(0, whole.size() - last.size()) + wider, "has 'logits' of 9999 elements at 3"},
      {whole + more, "has 'layer_0_q', which is not of the set 'layers'"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.message);
    golden_->write("", "");
    put("golden/tiny/f32.jsonl.new", test.log);
    for (const char* action : {"accept", "review"}) {
      expect_refused(golden({action}), "f32.jsonl.new: " + test.message);
    }
    // With a manifest that states its hash.
    const std::string cut = put("golden/tiny/f32.jsonl", test.log);
    fs::remove(path("f32.jsonl.new"));
    replace_in(path("manifest.json"), file_sha256_of(whole), file_sha256_of(test.log));
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("f32.jsonl: " + test.message),
                                   HasSubstr("; assay golden record tiny")));
  }
  // What the floors name must be there, too.
  golden_->write("", "");
  replace_in(path("manifest.json"), "\"floors\": {",
             R"("floors_by_checkpoint": {"layer_1_output": {"f32_vs_f64": {"max": 1e-6}}},
                "floors": {)");
  EXPECT_THAT(golden({"verify"}).err,
              HasSubstr("f32.jsonl: has no 'layer_1_output', of which the manifest has floors"));
}

TEST_F(GoldenCommand, WhatIsRecordedWaitsIsReviewedInFloorsAndAccepted) {
  const auto before = golden_->contents();
  Outcome outcome = record("1e-5");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "tiny: pending: f32.jsonl, manifest.json; assay golden review tiny\n");
  EXPECT_THAT(outcome.err, HasSubstr("fake oracle at work\n"));
  auto now = golden_->contents();
  for (const auto& [name, text] : before) EXPECT_EQ(now.at(name), text) << name;
  EXPECT_EQ(now.size(), before.size() + 2);
  EXPECT_EQ(golden({"verify"}).exit_code, 0);

  outcome = golden({"review"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("f32.jsonl (F32, haiku)  noise: 0 of 12 records beyond 3 x"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("logits +0 +1e-05 +2.5 +3 +noise"));

  outcome = golden({"accept"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "tiny: accepted f32.jsonl, manifest.json\n");
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  now = golden_->contents();
  EXPECT_EQ(now.size(), before.size());
  EXPECT_NE(now.at("f32.jsonl"), before.at("f32.jsonl"));
  EXPECT_EQ(record("1e-5").out, "tiny: nothing changes\n");
  record("2e-5");
  EXPECT_EQ(record("1e-5").out,
            "tiny: nothing changes; removed what waited: f32.jsonl.new, manifest.json.new\n");
  put("golden/tiny/long.jsonl.new", now.at("long.jsonl"));
  EXPECT_EQ(record("2e-5").out,
            "tiny: pending: f32.jsonl, manifest.json; removed what waited: long.jsonl.new; assay "
            "golden review tiny\n");
  golden({"reject"});
  EXPECT_EQ(golden({"review"}).out, "nothing is pending\n");
  EXPECT_EQ(golden({"accept", "tiny"}).out, "nothing is pending\n");
}

TEST_F(GoldenCommand, RejectBringsBackWhatWas) {
  const auto before = golden_->contents();
  record("1e-5");
  put("golden/tiny/.assay.1.0.tmp.new", "cut off");
  EXPECT_EQ(golden({"reject", "tiny"}).out, "tiny: removed 2 pending files\n");
  EXPECT_EQ(golden_->contents(), before);
  const Outcome nothing = golden({"reject"});
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(nothing.out, "nothing is pending\n");
}

// An oracle of the user's own need not know manifests.
TEST_F(GoldenCommand, LogsAloneAreAcceptedWithTheirHashesPutIntoTheManifest) {
  const std::string before = contents(path("manifest.json"));
  EXPECT_EQ(record("1e-5", "logs_only").exit_code, 0);
  EXPECT_EQ(golden({"accept"}).exit_code, 0);
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  const std::string now = contents(path("manifest.json"));
  ASSERT_EQ(now.size(), before.size());
  size_t differing = 0;
  for (size_t i = 0; i < now.size(); ++i) differing += now[i] == before[i] ? 0 : 1;
  EXPECT_GT(differing, 30U);
  EXPECT_LE(differing, 64U) << "more than one hash was changed";
}

// A log put there by hand is taken with the same checks.
TEST_F(GoldenCommand, PendingFilesThatDoNotFitAreRefused) {
  const auto before = golden_->contents();
  put("golden/tiny/stray.jsonl.new", "{}");
  expect_refused(golden({"accept"}), "stray.jsonl.new: nothing in the manifest names it");
  fs::remove(path("stray.jsonl.new"));
  put("golden/tiny/f32.jsonl.new", "{\"checkpoint\"");
  expect_refused(golden({"accept"}), "f32.jsonl.new: the log holds no records");
  std::string log = before.at("f32.jsonl");
  put("golden/tiny/f32.jsonl.new", log.substr(log.find('\n') + 1));
  expect_refused(golden({"accept"}), "f32.jsonl.new: has no header");
  put("golden/tiny/f32.jsonl.new", log.substr(0, log.find('\n', log.find("logits")) + 1));
  expect_refused(golden({"accept"}),
                 "f32.jsonl.new: has no 'embedding' at 1, the manifest states all 4 positions");
  put("golden/tiny/f32.jsonl.new", log.replace(log.find("\"sha256\": \"") + 11, 4, "0000"));
  expect_refused(golden({"accept"}), "f32.jsonl.new: is of another model file than the F32");
  fs::remove(path("f32.jsonl.new"));
  record("1e-5");
  fs::remove(path("f32.jsonl.new"));
  expect_refused(golden({"accept"}), "f32.jsonl: is not what the manifest states");
  expect_refused(golden({"review"}), "f32.jsonl: is not what the manifest states");
  EXPECT_EQ(golden({"reject"}).exit_code, 0);
  EXPECT_EQ(golden_->contents(), before);
}

TEST_F(GoldenCommand, AnOracleThatFailsChangesNothing) {
  const auto before = golden_->contents();
  const struct {
    const char* fake;
    const char* message;
  } cases[] = {
      {"fail", "the oracle ended with exit code 3, nothing was recorded"},
      {"nothing", "the oracle wrote nothing to $ASSAY_GOLDEN_OUT/tiny"},
      {"torn", "its last line is cut off"},
      {"missing", "long.jsonl: is not what the manifest states"},
      {"wrong_hash", "f32.jsonl: is not what the manifest states"},
      {"orphan", "stray.jsonl: nothing in the manifest names it"},
      {"other_tokens", "f32.jsonl: is of other tokens than the prompt 'haiku'"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.fake);
    const Outcome outcome = record("1e-5", test.fake);
    expect_refused(outcome, test.message);
    // It is what has just failed.
    EXPECT_THAT(outcome.err, Not(HasSubstr("; assay golden record")));
    EXPECT_EQ(golden_->contents(), before);
  }
  expect_refused(record("1e-5", "in_place"), "the oracle wrote into the golden itself");
}

TEST_F(GoldenCommand, AnotherOracleCanBeGiven) {
  setenv("NUDGE", "1e-5", 1);
  replace_in(path("manifest.json"), "\"command\": \"python3", "\"command\": \"false");
  expect_refused(golden({"record", "tiny"}), "the oracle ended with exit code 1");
  EXPECT_EQ(golden({"record", "tiny", "--oracle", TinyGolden::command()}).exit_code, 0);
  put("golden/tiny/manifest.json", "[]");
  expect_refused(golden({"record", "tiny"}), "'command' does not state how to record it");
  // A manifest that is broken is mended by recording.
  EXPECT_EQ(golden({"record", "tiny", "--oracle", TinyGolden::command()}).exit_code, 0);
  EXPECT_THAT(golden({"verify"}).err, HasSubstr("assay golden accept tiny"));
  EXPECT_THAT(golden({"review"}).out, HasSubstr("the manifest in place cannot be read"));
  EXPECT_EQ(golden({"accept"}).exit_code, 0);
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
}

TEST_F(GoldenCommand, NothingChangesUnderCiUnlessItIsAskedFor) {
  const auto before = golden_->contents();
  setenv("CI", "true", 1);
  expect_refused(record("1e-5"), "goldens are not changed under CI; set ASSAY_UPDATE=new");
  expect_refused(golden({"accept"}), "goldens are not changed under CI");
  EXPECT_EQ(golden_->contents(), before);
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  setenv("ASSAY_UPDATE", "new", 1);
  EXPECT_EQ(record("1e-5").exit_code, 0);
  EXPECT_EQ(golden({"reject"}).exit_code, 0);
  unsetenv("CI");
  setenv("ASSAY_UPDATE", "no", 1);
  expect_refused(record("1e-5"), "ASSAY_UPDATE is no");
  EXPECT_EQ(golden_->contents(), before);
  setenv("ASSAY_UPDATE", "sometimes", 1);
  expect_refused(record("1e-5"), "ASSAY_UPDATE: 'sometimes' is not known; give no, new or always");
  setenv("ASSAY_UPDATE", "always", 1);
  EXPECT_THAT(record("1e-5").out, StartsWith("tiny: recorded and accepted: f32.jsonl"));
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
  EXPECT_EQ(golden_->contents().size(), before.size());
}

TEST_F(GoldenCommand, AFolderThatCannotBeWrittenToIsTold) {
  setenv("NUDGE", "1e-5", 1);
  record("1e-5");
  const auto before = golden_->contents();
  fs::permissions(golden_->folder(), fs::perms(0555));
  fs::permissions(folder_, fs::perms(0755));
  const auto nobody = geteuid() == 0 ? std::optional<uid_t>(65534) : std::nullopt;
  for (const char* action : {"record", "accept", "reject"}) {
    const Outcome outcome = run({"golden", action, "tiny", "--folder", golden_->root()}, nobody);
    if (outcome.exit_code == 127)
      GTEST_SKIP() << "user: another user cannot run " << program_path("assay");
    EXPECT_EQ(outcome.exit_code, 2) << action;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write to the folder: Permission denied"));
  }
  EXPECT_EQ(run({"golden", "verify", "--folder", golden_->root()}, nobody).exit_code, 0);
  fs::permissions(golden_->folder(), fs::perms(0755));
  EXPECT_EQ(golden_->contents(), before);
}

TEST_F(GoldenCommand, StatesAreTakenAsJsonToo) {
  for (const char* action : {"list", "verify"}) {
    const Outcome outcome = golden({action, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, StartsWith("{\"goldens\":[{\"model\":\"tiny\",\"verified\":true,"));
    EXPECT_THAT(outcome.out, HasSubstr("\"state\":\"recorded\""));
  }
  fs::remove(path("f32.jsonl"));
  const Outcome outcome = golden({"verify", "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\"verified\":false,\"problems\":[\""),
                    HasSubstr("f32.jsonl: is missing"), HasSubstr("\"state\":\"missing\"")));
}

// Breaks if a log that no manifest names, and so no test reads, stayed unseen.
TEST_F(GoldenCommand, AFileThatNoManifestNamesIsTold) {
  put("golden/tiny/stray.jsonl", "{}");
  const Outcome outcome = golden({"verify"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("stray.jsonl: is a file that no manifest names; delete it"));
}

// Breaks if a golden whose manifest was lost were held to nothing, unseen.
TEST_F(GoldenCommand, LogsOrModelsWithoutAManifestAreTold) {
  for (const std::string name : {"lost.jsonl", "lost.gguf"}) {
    fs::create_directories(golden_->root() + "/lost");
    put("golden/lost/" + name, "{}");
    const Outcome outcome = golden({"verify"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, HasSubstr("NOT VERIFIED  lost, 1 problem"));
    EXPECT_THAT(outcome.err, HasSubstr("lost/manifest.json: cannot open"));
    fs::remove_all(golden_->root() + "/lost");
  }
  fs::create_directories(golden_->root() + "/scripts");
  put("golden/scripts/oracle.py", "pass");
  EXPECT_EQ(golden({"verify"}).exit_code, 0);
}

TEST_F(GoldenCommand, AManifestThatCannotBeReadIsToldOnceWithOneRemedy) {
  fs::create_directories(folder_ + "/golden/broken");
  put("golden/broken/manifest.json", R"({"schema": 99})");
  const std::string message =
      "assay: " + folder_ +
      "/golden/broken/manifest.json: 'schema' is 99, this program reads 2; use a newer assay\n";
  for (const char* action : {"verify", "review", "accept"}) {
    const Outcome outcome = golden({action});
    EXPECT_EQ(outcome.exit_code, 2) << action;
    EXPECT_TRUE(outcome.err.starts_with(message)) << action << outcome.err;
    EXPECT_EQ(outcome.err.find("broken", message.size()), std::string::npos) << action;
  }
}

TEST_F(GoldenCommand, WrongUseIsOneClearLine) {
  expect_refused(golden({"verify", "../golden/tiny"}), "there is no golden of '../golden/tiny'");
  expect_refused(golden({"verify", "none"}), "there is no golden of 'none'");
  expect_refused(run({"golden", "list", "--folder", folder_ + "/none"}),
                 "cannot read the goldens: No such file or directory");
  for (const char* action : {"verify", "record", "review"}) {
    expect_refused(run({"golden", action, "tiny", "--folder", folder_ + "/none"}),
                   "cannot read the goldens: No such file or directory; run in the folder that "
                   "holds golden/, or give --folder");
  }
  expect_refused(run({"golden", "list", "--folder", golden_->folder()}),
                 "no folder in it holds a manifest.json");
  expect_refused(run({"golden"}), "see assay golden --help");
  expect_refused(golden({"record"}), "MODEL is required");
  EXPECT_THAT(run({"golden", "--help"}).out, HasSubstr("ASSAY_UPDATE"));
}

}  // namespace
}  // namespace assay
