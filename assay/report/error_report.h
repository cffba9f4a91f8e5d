#pragma once

#include <string>

#include "assay/report/text_sink.h"

namespace assay {

// A command that ended with an error before it could report.
struct FailedCommand {
  std::string command;  // "assay compare"
  std::string message;
  std::string time;  // "2026-01-31T12:00:00"
};

// What stands in place of the report. A suite of JUnit with one case and its <error>:
void write_junit_error(const FailedCommand& failed, const TextSink& sink);
// The annotation for GitHub (`::error`), and the summary of the job:
void write_github_error(const FailedCommand& failed, const TextSink& sink);
void write_github_error_summary(const FailedCommand& failed, const TextSink& sink);

}  // namespace assay
