#pragma once

#include <gmock/gmock.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {

// assay conform and assay invariance.
class ConformCommand : public Program {
 protected:
  const std::string kOwn = program_path("assay") + " engine";  // follows the protocol

  // With its own folder for models and logs.
  Outcome asked(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--work", folder_ + "/work"});
    return run(arguments);
  }

  void expect_usage(std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.end(), {"--work", folder_ + "/work"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::HasSubstr(message));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  static rapidjson::Document parsed(const std::string& text) {
    rapidjson::Document document;
    document.Parse(text.c_str());
    EXPECT_TRUE(document.IsObject()) << text;
    return document;
  }
};

}  // namespace assay
