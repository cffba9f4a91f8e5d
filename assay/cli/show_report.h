#pragma once

#include <string>

#include "assay/cli/output.h"
#include "assay/report/report.h"

namespace assay {

// Writes a report to `output` or, where that is empty, to the standard output; the summary of a job
// to the file that the runner names, if any. `context` has what this command knows of it.
template <class Subject>
void show_report(const Report<Subject>& report, const Subject& subject, ReportContext context,
                 const std::string& output) {
  context.version = ASSAY_VERSION;
  context.time = utc_now();
  context.style = output_style(output);
  if (!report.is_step_summary()) {
    write_output(output, [&](const TextSink& sink) { report.write(subject, context, sink); });
    return;
  }
  write_output("", [&](const TextSink& sink) { report.write_annotations(subject, sink); });
  write_step_summary(output, [&](size_t most, const TextSink& sink) {
    context.max_bytes = most;
    report.write(subject, context, sink);
  });
}

}  // namespace assay
