#pragma once

#include <string>

namespace assay {

// What a report tells besides the comparison.
struct ReportContext {
  std::string command;  // to type to compare again
  std::string version;  // of Assay
  std::string time;     // UTC, "2026-01-31T12:00:00"
};

}  // namespace assay
