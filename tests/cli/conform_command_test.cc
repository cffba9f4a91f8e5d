// assay conform.
#include "tests/cli/conform_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <filesystem>

#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(ConformCommand, AssayHonoursWhatItIsAsked) {
  const Outcome outcome = asked({"conform", "assay", "--features", "rope_theta*"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4 honoured"));
}

// The model of a mistake in place of the feature's own: what an engine does that makes it.
TEST_F(ConformCommand, AMistakeIsNamed) {
  const std::string engine = "cp -r $ASSAY_MODEL_DIR " + folder_ + "/m; sed -i s/64[.]0/10000.0/ " +
                             folder_ + "/m/config.json; ASSAY_MODEL_DIR=" + folder_ + "/m " + kOwn;
  const Outcome outcome =
      asked({"conform", "--command", engine, "--features", "rope_theta", "--format", "json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const rapidjson::Document json = parsed(outcome.out);
  EXPECT_FALSE(json["pass"].GetBool());
  const rapidjson::Value& feature = json["engines"][0]["features"][0];
  EXPECT_STREQ(feature["feature"].GetString(), "rope_theta");
  EXPECT_STREQ(feature["verdict"].GetString(), "ignored") << outcome.out;
  EXPECT_STREQ(feature["cause"].GetString(), "rope_base");
  EXPECT_GT(feature["rel_l2"].GetDouble(), 1e-3);
  EXPECT_LT(feature["from_explained"].GetDouble(), 1e-5);
  EXPECT_THAT(feature["command"].GetString(), HasSubstr("--features rope_theta"));
}

TEST_F(ConformCommand, NothingShownIsNoPass) {
  const Outcome none =
      asked({"conform", "--command", "echo not today >&2; exit 3", "--features", "rope_theta"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("supports nothing of this, so nothing is shown: not today"));
  const Outcome crash = asked({"conform", "--command", "exit 9", "--features", "rope_theta"});
  EXPECT_EQ(crash.exit_code, 1);
  EXPECT_THAT(crash.out, HasSubstr("ended with exit code 9"));
}

TEST_F(ConformCommand, ReportsForPagesOfCi) {
  const std::vector<std::string> asking = {"conform", "--command", "echo 'no <b>' >&2; exit 9",
                                           "--features", "rope_theta"};
  const auto in = [&](const char* format) {
    std::vector<std::string> arguments = asking;
    arguments.insert(arguments.end(), {"--format", format});
    return asked(arguments).out;
  };
  EXPECT_THAT(in("junit"), HasSubstr("<failure type=\"crashed\""));
  EXPECT_THAT(in("junit"), Not(HasSubstr("<b>")));
  EXPECT_THAT(in("junit"), Not(HasSubstr("time=\"0\"")));  // as measured
  const std::string github = in("github");
  EXPECT_THAT(github, StartsWith("::error title=command%2C rope_theta%3A crashed::crashed: ended "
                                 "with exit code 9: no <b>\n### Assay: conformance\n"));
  const Outcome right =
      asked({"conform", "assay", "--features", "rope_theta", "--format", "github"});
  EXPECT_THAT(right.out, StartsWith("### Assay: conformance"));
  EXPECT_THAT(right.out, HasSubstr("1 honoured"));
  EXPECT_THAT(right.out, Not(HasSubstr("| verdict |"))) << "a head without rows";
  const std::string page = in("html");
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("no <b>")));
}

TEST_F(ConformCommand, BadUsageIsOneLine) {
  expect_usage({"conform"}, "no engine is given");
  expect_usage({"conform", "assay", "--command", "true"}, "'assay' and --command are both given");
  expect_usage({"conform", "nosuch"}, "'nosuch' is not an engine of the list");
  expect_usage({"conform", "assay", "--features", "nosuch*"}, "'nosuch*' matches no feature");
  expect_usage({"conform", "assay", "--suite", folder_}, "holds no folder with a case.json");
  expect_usage({"conform", "assay", "--precision", "float8"}, "'float8' is not a precision");
  expect_usage({"conform", "assay", "--timeout", "0"}, "--timeout");
  expect_usage({"conform", "assay", "--format", "yaml"}, "'yaml' is not known");
  expect_usage({"conform", "x", "--engines", put("list.json", "{\"engines\":[]}")},
               "'x' is not an engine of the list");
  for (const char* engine : {"x", "assay"}) {
    expect_usage({"conform", engine, "--engines", put("list.json", "{")}, "list.json");
    expect_usage({"conform", engine, "--engines", folder_ + "/none.json"},
                 "none.json: cannot open");
  }
}

// Breaks if a report took the place of what the suite says, before or after an error.
TEST_F(ConformCommand, NoReportInsideTheSuite) {
  namespace fs = std::filesystem;
  const std::string suite = folder_ + "/suite";
  fs::create_directory(suite);
  fs::copy(source_path("conform/suite/rope_theta"), suite + "/rope_theta");
  for (const char* name : {"reference.jsonl", "case.json"}) {
    const std::string file = suite + "/rope_theta/" + name;
    const std::string before = contents(file);
    for (const char* features : {"rope_theta", "nosuch"}) {
      expect_usage({"conform", "assay", "--suite", suite, "--features", features, "-o", file},
                   "the report would be ");
    }
    EXPECT_EQ(run({"conform", "--suite", suite, "-o", file, "--nosuch"}).exit_code, 2);
    EXPECT_EQ(contents(file), before);
  }
  const std::string own = source_path("conform/suite/rope_theta/new.json");
  expect_usage({"conform", "assay", "--features", "rope_theta", "-o", own},
               "the report would be part of its input " + source_path("conform/suite"));
  EXPECT_FALSE(fs::remove(own));
}

// The most probable token's probability is 1 with the feature and without it.
TEST_F(ConformCommand, WhatShowsNoMistakeIsNotHonoured) {
  const std::string engine =
      "cd " + folder_ + "; ASSAY_LOG_CHECKPOINTS=logits " + kOwn +
      "; python3 -c \"import json,math,os\n"
      "out=[]\n"
      "for line in open(os.environ['ASSAY_LOG_FILE']):\n"
      "  r=json.loads(line)\n"
      "  if 'values' not in r: continue\n"
      "  v=r['values']; m=max(v); s=m+math.log(sum(math.exp(x-m) for x in v))\n"
      "  out.append(json.dumps(dict(checkpoint='logprobs',token_idx=r['token_idx'],dtype='f32',"
      "shape=[1,len(v)],n=len(v),values=[],top=[[v.index(m),m-s]])))\n"
      "open(os.environ['ASSAY_LOG_FILE'],'w').write(chr(10).join(out)+chr(10))\"";
  const Outcome outcome =
      asked({"conform", "--command", engine, "--features", "embedding_multiplier"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("logs too little to tell it from an engine that"));
}

// Breaks if a log that ends within a record, as of an engine that was stopped, looked like one that
// was to end there.
TEST_F(ConformCommand, ALastLineThatIsCutOffIsSaid) {
  const std::string cut = "; truncate -s -20 $ASSAY_LOG_FILE";
  const std::vector<std::string> conform = {"conform", "--command", kOwn + cut, "--features",
                                            "rope_theta*"};
  const Outcome outcome = asked(conform);
  EXPECT_THAT(outcome.err,
              ContainsRegex("warning: .*rope_theta.*jsonl:[0-9]+: the last line is cut "
                            "off and was left out; so is that of 3 logs more"));
  for (const char* command : {"conform", "invariance"}) {
    std::vector<std::string> arguments = {command,      "--command", kOwn + cut, "--features",
                                          "rope_theta", "--format",  "json"};
    const rapidjson::Document json = parsed(asked(arguments).out);
    const bool is_conform = std::string(command) == "conform";
    const rapidjson::Value& row = json["engines"][0][is_conform ? "features" : "surfaces"][0];
    EXPECT_THAT(row["text"].GetString(), HasSubstr("the last line of its log is cut off"));
  }
  EXPECT_THAT(asked({"conform", "--command", kOwn, "--features", "rope_theta"}).err,
              Not(HasSubstr("cut off")));
}

// Breaks if a CI that shows JUnit is green for an engine of which nothing was shown.
TEST_F(ConformCommand, AnEngineThatSupportsNothingIsAnErrorInJunit) {
  for (const std::string& command : {std::string("exit 3"), std::string("exit 9"), kOwn}) {
    const Outcome outcome =
        asked({"conform", "--command", command, "--features", "rope_theta", "--format", "junit"});
    const bool nothing = command == "exit 3";
    EXPECT_EQ(outcome.out.find("<error message=") != std::string::npos, nothing) << outcome.out;
    EXPECT_THAT(outcome.out,
                HasSubstr(nothing ? "tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"1\""
                                  : "tests=\"1\""));
  }
}

TEST_F(ConformCommand, TheCommandThatRepeatsHasItsFlags) {
  const Outcome outcome = asked({"conform", "--command", "exit 9", "--features", "rope_theta",
                                 "--precision", "bfloat16", "--timeout", "7"});
  EXPECT_THAT(outcome.out, HasSubstr("--features rope_theta --precision bfloat16 --work " +
                                     folder_ + "/work --timeout 7"));
}

class CombinedRuns : public ConformCommand {
 protected:
  // A run of the features, as JSON in that file.
  std::string ran(std::vector<std::string> arguments, const std::string& name,
                  const std::vector<std::string>& features) {
    const std::string path = folder_ + "/" + name;
    for (const std::string& each : features) {
      arguments.insert(arguments.end(), {"--features", each});
    }
    arguments.insert(arguments.begin(), "conform");
    arguments.insert(arguments.end(), {"--format", "json", "-o", path});
    EXPECT_NE(asked(arguments).exit_code, 2);
    return path;
  }

  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
};

// A page of a long suite is made of several runs, and shows what one run would.
TEST_F(CombinedRuns, AreOneTable) {
  const std::vector<std::string> crash = {"--command", "exit 9"};
  const std::string first = ran({"assay"}, "1.json", {"rope_theta"});
  const std::string second = ran({"assay"}, "2.json", {"tied_head"});
  const std::string third = ran(crash, "3.json", {"rope_theta", "tied_head"});
  const std::vector<std::string> asking = {"conform",   "--from",     third,       "--from",
                                           first,       "--from",     second,      "--features",
                                           "tied_head", "--features", "rope_theta"};
  const Outcome table = asked(asking);
  EXPECT_EQ(table.exit_code, 1) << table.err;
  EXPECT_THAT(table.out, HasSubstr("assay 0.1.0: 2 honoured"));
  EXPECT_THAT(table.out, HasSubstr("command: 2 crashed"));
  std::vector<std::string> page = asking;
  page.insert(page.end(), {"--format", "markdown"});
  const std::string text = asked(page).out;
  EXPECT_THAT(text, HasSubstr("from 3 runs between 20"));
  EXPECT_THAT(text, HasSubstr("- `assay conform assay --features tied_head --work"));
  EXPECT_THAT(text, HasSubstr("| A rotary base far from 10000 | **crashed** | ✓ |"));
  // What was put together can be put together again.
  std::vector<std::string> again = asking;
  again.insert(again.end(), {"--format", "json", "-o", folder_ + "/all.json"});
  EXPECT_EQ(asked(again).exit_code, 1);
  const Outcome same = asked({"conform", "--from", folder_ + "/all.json", "--features", "tied_head",
                              "--features", "rope_theta"});
  EXPECT_EQ(same.out, table.out);
}

TEST_F(CombinedRuns, ThatDoNotFitAreRejected) {
  const std::string path = ran({"assay"}, "1.json", {"rope_theta"});
  const std::vector<std::string> one = {"conform", "--features", "rope_theta", "--from"};
  const auto expect_rejected = [&](std::vector<std::string> files, const std::string& message) {
    std::vector<std::string> arguments = one;
    files.insert(files.begin(), arguments.begin(), arguments.end());
    expect_usage(files, message);
  };
  expect_rejected(
      {path, "--features", "tied_head"},
      "'tied_head' of assay 0.1.0 is missing; choose the rows of the file with --features "
      "rope_theta, or run assay conform assay --features tied_head");
  // Breaks if the hint named an engine by a name that the program does not take.
  const std::string other = ran({"--command", "exit 9"}, "2.json", {"rope_theta"});
  expect_rejected({other, "--features", "tied_head"},
                  "choose the rows of the file with --features rope_theta, or run assay conform "
                  "--command 'exit 9' --features tied_head --format json -o FILE");
  expect_rejected({path, "--from", path}, "'rope_theta' of assay 0.1.0 is in");
  // Breaks if a table of another version's verdicts passed for the present one's.
  const std::string old = put("old.json", replaced(contents(path), "\"runs\":[{\"assay\":\"0.1.0\"",
                                                   "\"runs\":[{\"assay\":\"0.0.9\""));
  expect_rejected({old}, old + ": was written by Assay 0.0.9, and this is 0.1.0; run it again");
  expect_rejected({path, "assay"}, "takes what was run before, and an engine is given, too");
  expect_rejected({folder_ + "/nosuch.json"}, "nosuch.json");
  expect_rejected({put("x.json", "[]")}, "x.json");
  const std::string text = contents(path);
  const size_t digest = text.find("\"case\":\"") + 8;
  expect_rejected({put("x.json", replaced(text, text.substr(digest, 64), std::string(64, '0')))},
                  "'rope_theta' of assay 0.1.0 was run with another version of the case");
  expect_rejected({put("x.json", replaced(text, "\"honoured\",\"cause", "\"fine\",\"cause"))},
                  "is 'fine', which is no verdict of conform");
}

// Breaks if a feature that summaries alone show reads like one that all logits do.
TEST_F(CombinedRuns, OfPartsOfTheLogitsAreCounted) {
  const std::string summaries = std::string(kOwn) +
                                "; sed -i 's/\"values\":\\[[^]]*\\]/\"values\":[]/; "
                                "s/,\"sketch\":\\[[^]]*\\]//' $ASSAY_LOG_FILE";
  const std::string path = ran({"--command", summaries}, "1.json", {"rope_theta"});
  const Outcome outcome = asked({"conform", "--from", path, "--features", "rope_theta"});
  EXPECT_THAT(outcome.out, HasSubstr("command: 1 honoured (1 by a part of the output only)"));
}

// Breaks if a file in which nothing was run passes: a page of nothing has no failure.
TEST_F(CombinedRuns, OfNothingAreRejected) {
  const std::string text = contents(ran({"assay"}, "1.json", {"rope_theta"}));
  const size_t engines = text.find("\"engines\":[") + 11;
  const size_t features = text.find("\"features\":[") + 12;
  for (const char* format : {"table", "junit"}) {
    const std::vector<std::string> asking = {"conform",  "--features", "rope_theta",
                                             "--format", format,       "--from"};
    const auto expect_rejected = [&](const std::string& file, const std::string& message) {
      std::vector<std::string> arguments = asking;
      arguments.push_back(put("x.json", file));
      expect_usage(arguments, message);
    };
    expect_rejected(text.substr(0, engines) + "]}", "'engines' is empty: nothing was run");
    expect_rejected(text.substr(0, features) + "]}]}", "is empty: nothing was run");
    const size_t error = text.find("\"rel_l2\":") + 9;
    expect_rejected(text.substr(0, error) + "null" + text.substr(text.find(',', error)),
                    "is 'honoured' without a finite rel_l2 at any position");
    const size_t positions = text.find("\"positions\":") + 12;
    expect_rejected(text.substr(0, positions) + "0,\"positions_whole\":0" +
                        text.substr(text.find(",\"positions_total", positions)),
                    "is 'honoured' without a finite rel_l2 at any position");
  }
}

// Breaks if a file that says that all is honoured passes, whatever its figures are.
TEST_F(CombinedRuns, AreJudgedByTheirFigures) {
  const std::vector<std::string> asking = {"conform", "--features", "rope_theta", "--from"};
  const auto from = [&](const std::string& text) {
    std::vector<std::string> arguments = asking;
    arguments.push_back(put("x.json", text));
    return arguments;
  };
  const auto with = [](std::string text, const std::string& key, const std::string& value) {
    const size_t at = text.find("\"" + key + "\":") + key.size() + 3;
    return text.replace(at, text.find_first_of(",}", at) - at, value);
  };
  const std::string whole = contents(ran({"assay"}, "1.json", {"rope_theta"}));
  EXPECT_EQ(asked(from(whole)).exit_code, 0);
  const Outcome off = asked(from(with(whole, "rel_l2", "2e-3")));
  EXPECT_EQ(off.exit_code, 1) << off.err;
  EXPECT_THAT(off.out, HasSubstr("rope_theta: differs: is off by 2.0e-03, more than float32 may"));
  expect_usage(from(with(whole, "positions_total", "9999")), "is of 9999 positions, and the case");
  expect_usage(from(with(whole, "positions_whole", "0")), "'honoured' by a part of the logits");
  expect_usage(from(with(whole, "checkpoint", "\"layer_1_output\"")), "'honoured' by a part of");
  expect_usage(from(with(whole, "honoured", "2")), "'engines[0].counts.honoured' is not the count");
  expect_usage(from(with(whole, "pass", "false")), "'pass' is not what the verdicts give");
  expect_usage(from(with(whole, "runs", "[],\"was\":[{\"assay\":\"0\"")), "'runs' is empty");
  expect_usage(from(with(whole, "precision", "\"fine\"")), "'fine' is not a precision");
  expect_usage(from(with(whole, "precision", "\"int8\"")), "was run as int8, and is float32");
  expect_usage(from(with(whole, "feature", "\"rope_thera\"")), "is no feature of the suite");
  expect_usage(from(with(whole, "version", "\"0.0.9\"")), "with another version or adapter");
  expect_usage(from(with(whole, "name", "\"llama.cpp\"")),
               "'engines' has 'llama.cpp', which no run of it was asked for");
  expect_usage(from(with(whole, "name", "\"command\"")), "'engines' has 'command', which no run");
  expect_usage(from(replaced(whole, "assay conform assay ", "assay conform assay llama.cpp ")),
               "'engines' lacks llama.cpp, which its runs were asked for");
  const std::string quoted =
      replaced(whole, "assay conform assay ", R"(assay conform 'it'\\''s' )");
  EXPECT_THAT(asked(from(with(quoted, "name", "\"it's\""))).err, Not(HasSubstr("no run of it")));
  expect_usage(from(replaced(whole, "assay conform assay ", "assay perf assay ")),
               "'runs[0].command' is no command of assay conform");

  std::vector<std::string> given =
      from(with(with(whole, "precision", "\"int8\""), "rel_l2", "2e-3"));
  given.insert(given.end(), {"--precision", "int8"});
  EXPECT_EQ(asked(given).exit_code, 0);

  // What shows a part names how far the nearest mistake is from it.
  const std::string summaries = std::string(kOwn) +
                                "; sed -i 's/\"values\":\\[[^]]*\\]/\"values\":[]/; "
                                "s/,\"sketch\":\\[[^]]*\\]//' $ASSAY_LOG_FILE";
  const std::string part = contents(ran({"--command", summaries}, "2.json", {"rope_theta"}));
  EXPECT_EQ(asked(from(part)).exit_code, 0);
  expect_usage(from(with(part, "from_nearest_mistake", "null")), "without from_nearest_mistake");
  expect_usage(
      from(with(part, "checkpoint", "\"embedding\"")),
      "'honoured' by 'embedding', and conform judges logits or the output of the last layer");
  const Outcome near = asked(from(with(part, "from_nearest_mistake", "1e-6")));
  EXPECT_EQ(near.exit_code, 2);
  EXPECT_THAT(near.err,
              HasSubstr("supports nothing of this, so nothing is shown: logs too little"));
}

// A file from elsewhere may hold anything.
TEST_F(CombinedRuns, ShowNoControlCharacters) {
  const std::string path = ran({"--command", "exit 9"}, "1.json", {"rope_theta"});
  std::string text = contents(path);
  const auto insert_after = [&](const std::string& start) {
    for (size_t at = 0; (at = text.find(start, at)) != std::string::npos; at += start.size()) {
      text.insert(at + start.size(), "\\u001b[31m\\n::error::");
    }
  };
  insert_after("\"cause\":\"");
  insert_after("\"text\":\"");
  insert_after("assay conform --command ");
  for (const char* format : {"table", "github", "markdown", "junit"}) {
    const Outcome outcome = asked(
        {"conform", "--from", put("x.json", text), "--features", "rope_theta", "--format", format});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << format;
    EXPECT_EQ(outcome.out.find("\n::error::"), std::string::npos) << format;
  }
}

// An adapter that has changed since makes what it did before stale.
TEST_F(CombinedRuns, OfAnotherAdapterAreRejected) {
  std::filesystem::create_directories(folder_ + "/engines/mine");
  put("engines/mine/adapter.py", "1");
  put("engines/mine/run.sh", "echo '{\"exit\":7,\"message\":\"no\"}'");
  const std::string list = put(
      "engines/engines.json",
      R"({"engines":[{"name":"mine","version":"1","command":["sh","./mine/run.sh"],"math":"float32",)"
      R"("adapter":["mine/adapter.py"]}]})");
  const std::string path = ran({"mine", "--engines", list}, "1.json", {"rope_theta"});
  const std::vector<std::string> asking = {"conform", "--from",     path,        "--engines",
                                           list,      "--features", "rope_theta"};
  EXPECT_EQ(asked(asking).exit_code, 1);
  put("engines/mine/adapter.py", "2");
  expect_usage(asking, "mine was run with another version or adapter; run it again");
}

// A reference without logits at a token judges nothing there.
TEST_F(ConformCommand, AReferenceThatLacksATokenIsAnError) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ + "/suite/rope_theta");
  const std::string from = source_path("conform/suite/rope_theta");
  fs::copy_file(from + "/case.json", folder_ + "/suite/rope_theta/case.json");
  const std::string text = contents(from + "/reference.jsonl");
  const size_t at = text.find("\"checkpoint\":\"logits\",\"token_idx\":5");
  put("suite/rope_theta/reference.jsonl", std::string(text).replace(at + 14, 6, "logitz"));
  expect_usage({"conform", "assay", "--suite", folder_ + "/suite"},
               "reference.jsonl: has no logits at token 5 of 10; restore the suite");
}

TEST_F(ConformCommand, TheEngineSaysWhatItsCaseLacks) {
  expect_error({"engine"}, "ASSAY_TOKENS: is not set; docs/conform.md says what it holds");
}

}  // namespace
}  // namespace assay
