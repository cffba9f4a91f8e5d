// assay conform --baseline: an engine with known deviations as a gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "tests/cli/conform_command.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ConformBaseline : public ConformCommand {
 protected:
  // An engine that takes no notice of rope_theta, crashes at tied_head, and honours the rest.
  std::string with_deviations() const {
    return "case $ASSAY_MODEL_DIR in *tied_head*) exit 9;; *rope_theta) "
           "cp -r $ASSAY_MODEL_DIR " +
           folder_ + "/m; sed -i s/64[.]0/10000.0/ " + folder_ +
           "/m/config.json; ASSAY_MODEL_DIR=" + folder_ + "/m " + kOwn + ";; *) " + kOwn +
           ";; esac";
  }

  Outcome held(const std::string& engine, const std::string& baseline,
               const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"conform", "--command", engine, "--baseline", baseline};
    arguments.insert(arguments.end(), {"--features", "rope_theta", "--features", "tied_head",
                                       "--features", "hidden_act"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return asked(arguments);
  }

  std::string recorded(const std::string& engine, const std::string& name,
                       const std::vector<std::string>& features,
                       const std::string& format = "baseline") {
    std::string path = folder_ + "/" + name;
    std::vector<std::string> arguments = {"conform", "--command", engine, "--format",
                                          format,    "-o",        path};
    for (const std::string& each : features) {
      arguments.insert(arguments.end(), {"--features", each});
    }
    EXPECT_NE(asked(arguments).exit_code, 2);
    return path;
  }

  const std::vector<std::string> kAll = {"rope_theta", "tied_head", "hidden_act"};
};

TEST_F(ConformBaseline, WhatIsKnownDoesNotFailAndWhatIsWorseDoes) {
  const std::string known = recorded(with_deviations(), "known.json", kAll);
  const Outcome same = held(with_deviations(), known);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, AllOf(HasSubstr("ignored (as before)"), HasSubstr("crashed (as before)"),
                              HasSubstr("known.json: nothing has changed")));

  const std::string worse = "case $ASSAY_MODEL_DIR in *hidden_act*) exit 9;; *tied_head*) " + kOwn +
                            ";; *) " + with_deviations() + ";; esac";
  const Outcome outcome = held(worse, known);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("known.json: 1 worse, 1 better"),
                    HasSubstr("hidden_act: crashed: ended with exit code 9; in the "
                              "baseline honoured, "),
                    HasSubstr("honoured (better)"), HasSubstr("in the baseline crashed"),
                    Not(HasSubstr("rope_theta: ignored"))));
  const std::string junit = held(worse, known, {"--format", "junit"}).out;
  EXPECT_THAT(junit, AllOf(HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""),
                           HasSubstr("<skipped message=\"ignored (rope_base)"),
                           HasSubstr("so it is in the baseline")));
  const std::string github = held(worse, known, {"--format", "github"}).out;
  EXPECT_THAT(github, AllOf(HasSubstr("::error title=command%2C hidden_act%3A crashed"),
                            Not(HasSubstr("::error title=command%2C rope_theta"))));
  EXPECT_THAT(held(worse, known, {"--format", "markdown"}).out,
              AllOf(HasSubstr("| ignored (as before) |"), HasSubstr("| **honoured (better)** |"),
                    HasSubstr("| **crashed (worse)** |")));
}

TEST_F(ConformBaseline, WhatItDoesNotHaveFails) {
  const std::string known = recorded(with_deviations(), "known.json", {"rope_theta", "hidden_act"});
  const Outcome outcome = held(with_deviations(), known);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 new"), HasSubstr("exit code 9; in the baseline not there")));
}

// Breaks if a table that passed its baseline passes without it, too, or could not be read again.
TEST_F(ConformBaseline, IsOfOneTableOnly) {
  const std::string known = recorded(with_deviations(), "known.json", kAll);
  const std::string now = folder_ + "/now.json";
  EXPECT_EQ(held(with_deviations(), known, {"--format", "json", "-o", now}).exit_code, 0);
  const rapidjson::Document json = parsed(contents(now));
  EXPECT_TRUE(json["pass"].GetBool());
  EXPECT_STREQ(json["baseline"].GetString(), known.c_str());
  EXPECT_STREQ(json["engines"][0]["features"][0]["change"].GetString(), "same");
  const std::vector<std::string> again = {"conform",    "--from",     now,
                                          "--features", "rope_theta", "--features",
                                          "tied_head",  "--features", "hidden_act"};
  EXPECT_EQ(asked(again).exit_code, 1);
  std::vector<std::string> held_again = again;
  held_again.insert(held_again.end(), {"--baseline", known});
  EXPECT_EQ(asked(held_again).exit_code, 0);
  held_again.back() = now;
  EXPECT_EQ(asked(held_again).exit_code, 0);
}

TEST_F(ConformBaseline, OneThatCannotBeHeldToIsRefused) {
  const std::string known = recorded(kOwn, "known.json", {"rope_theta"});
  EXPECT_THAT(contents(known), Not(HasSubstr(folder_ + "/work/logs")));
  const auto refused = [&](const std::string& baseline, const std::string& message) {
    expect_usage({"conform", "assay", "--features", "rope_theta", "--baseline", baseline}, message);
  };
  refused(known, "known.json: does not have assay");
  refused(folder_ + "/none.json", "none.json: cannot open");
  refused(put("x.json", "{}"), "x.json");
  std::string text = contents(known);
  const std::string name = "\"feature\":\"rope_theta\"";
  text.replace(text.find(name), name.size(), "\"feature\":\"rope_thetb\"");
  refused(put("y.json", text), "'rope_thetb' is no feature of the suite");
  expect_usage({"conform", "--command", kOwn, "--baseline", known, "-o", known},
               "the report would ");
}

// The same of invariance: its deviations are as old as an engine's, mostly.
TEST_F(ConformBaseline, IsOfInvarianceToo) {
  const std::string known = folder_ + "/known.json";
  const auto invariance = [&](const std::string& crashes, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "invariance",
        "--command",
        "case $ASSAY_SURFACE in " + crashes + ") exit 9;; esac; " + kOwn,
        "--features",
        "family_llama",
        "--surfaces",
        "batch:2,chunks:7,steps"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return asked(arguments);
  };
  EXPECT_EQ(invariance("steps", {"--format", "baseline", "-o", known}).exit_code, 1);
  const Outcome same = invariance("steps", {"--baseline", known});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, AllOf(HasSubstr("crashed (as before)"), HasSubstr("nothing has changed")));
  const Outcome worse = invariance("chunks*", {"--baseline", known});
  EXPECT_EQ(worse.exit_code, 1);
  EXPECT_THAT(worse.out, AllOf(HasSubstr("known.json: 1 worse, 1 better"),
                               HasSubstr("in the baseline same bits, 0 from the tokens alone in "
                                         "1584 records")));
  expect_usage({"conform", "--command", kOwn, "--baseline", known}, "'engines[0]");
}

}  // namespace
}  // namespace assay
