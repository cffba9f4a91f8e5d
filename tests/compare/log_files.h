#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "assay/log/json_text.h"
#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace assay {

// The logs of one test.
class LogFiles : public TemporaryFolder {
 protected:
  // One line of a log; `more` is further members, each with its leading comma.
  static std::string line(const std::string& checkpoint, int64_t token_idx,
                          const std::vector<float>& values, const std::string& more = "") {
    std::string text =
        "{\"checkpoint\":\"" + checkpoint + "\",\"token_idx\":" + std::to_string(token_idx) +
        ",\"dtype\":\"f32\",\"shape\":[1," + std::to_string(values.size()) + "],\"values\":[";
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text += ',';
      append_json_number(text, values[i]);
    }
    return text + "]" + more + "}\n";
  }

  static std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

}  // namespace assay
