#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace assay {

// How ReportFlags marks its -o in help, by which failed reports are found; and how a command marks
// one whose file is kept and used after the run (a policy, a page): an error must not take it.
inline constexpr const char* kReportType = "REPORT";
inline constexpr const char* kKeptType = "FILE";
// How Flags marks a folder of which all files are read, whatever they are.
inline constexpr const char* kFolderType = "FOLDER";

// After an error: the report that the command was to write (ReportFlags), and that an earlier run
// may have left there, must not look like this run's. A report of JUnit or for GitHub holds the
// error, any other is removed; an input of the command stays. `app` may be parsed in part. Never
// throws.
void replace_report(const CLI::App& app, const std::string& message) noexcept;

}  // namespace assay
