#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "assay/report/text_table.h"

namespace assay {

// How fast something was.
struct SpeedFigure {
  std::string name;
  double value = 0;
  std::string unit;
  bool more_is_faster = true;
};

// What a report tells besides the comparison.
struct ReportContext {
  std::string command = {};  // to type to compare again
  std::string version = {};  // of Assay
  std::string time = {};     // UTC, "2026-01-31T12:00:00"
  // The text of a token, where the vocabulary is at hand.
  std::function<std::string(int64_t id)> token_text = {};
  std::vector<SpeedFigure> ref_speed = {};
  std::vector<SpeedFigure> got_speed = {};
  TextStyle style = {};                                   // of a table
  size_t max_bytes = std::numeric_limits<size_t>::max();  // of a summary
};

}  // namespace assay
