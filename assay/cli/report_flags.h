#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/output.h"
#include "assay/report/report.h"

namespace assay {

// Which report is written, and where.
struct ReportFlags {
  std::string format = "table";
  std::string output = {};  // empty: standard output

  // Adds --format, which is returned, --json and -o. This must outlive the command.
  CLI::Option* add(CLI::App& command, const std::string& format_help,
                   const std::string& output_help = "Write to this file");
  // Only one of these.
  CLI::Option* add_json(CLI::App& command, const std::string& help);
  CLI::Option* add_output(CLI::App& command, const std::string& help = "Write to this file");

  // Throws Error if the report would overwrite one of the inputs, or be added to it.
  void check_output(const std::vector<Input>& inputs) const;
};

// Writes the report of that format; the summary of a job to the file that the runner names, if any.
// `context` has what only the command knows.
template <class Subject>
void show_report(Reports<Subject> reports, const Subject& subject, const ReportFlags& flags,
                 ReportContext context = {}) {
  const Report<Subject>& report = *find_report(reports, flags.format);
  context.version = ASSAY_VERSION;
  context.time = utc_now();
  context.style = output_style(flags.output);
  if (!report.is_step_summary()) {
    write_output(flags.output, [&](const TextSink& sink) { report.write(subject, context, sink); });
    return;
  }
  write_output("", [&](const TextSink& sink) { report.write_annotations(subject, sink); });
  write_step_summary(flags.output, [&](size_t most, const TextSink& sink) {
    context.max_bytes = most;
    report.write(subject, context, sink);
  });
}

}  // namespace assay
