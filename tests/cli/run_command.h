#pragma once

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <set>
#include <string>
#include <vector>

#include "assay/log/log_reader.h"
#include "tests/cli/program.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

namespace assay {

inline const std::string kModel = source_path("golden/tinyllama/tinyllama-q8_0.gguf");

// Runs assay with a tiny model, or the golden one.
class RunCommand : public Program {
 protected:
  std::string tiny(const testing_support::TinyModel& model = {}) {
    return model.write(path("tiny.gguf"));
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  rapidjson::Document run_json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    rapidjson::Document json;
    json.Parse(outcome.out.c_str());
    EXPECT_FALSE(json.HasParseError()) << outcome.out;
    return json;
  }

  // checkpoint@token_idx of each record.
  static std::multiset<std::string> records(const std::string& log) {
    std::multiset<std::string> names;
    LogReader reader(log);
    while (const Record* record = reader.next()) {
      names.insert(record->checkpoint + "@" + std::to_string(record->token_idx));
    }
    return names;
  }
};

}  // namespace assay
