#include "assay/cli/report_flags.h"

#include "assay/cli/checks.h"
#include "assay/cli/failed_report.h"

namespace assay {

CLI::Option* ReportFlags::add(CLI::App& command, const std::string& format_help,
                              const std::string& output_help) {
  auto* format_option = command.add_option("--format", format, format_help);
  add_json(command, "The same as --format json")->excludes(format_option);
  add_output(command, output_help);
  return format_option;
}

CLI::Option* ReportFlags::add_json(CLI::App& command, const std::string& help) {
  return command.add_flag_callback(
      "--json", [this] { format = "json"; }, help);
}

CLI::Option* ReportFlags::add_output(CLI::App& command, const std::string& help) {
  return command.add_option("-o,--output", output, help)->type_name(kReportType);
}

void ReportFlags::check_output(const std::vector<Input>& inputs) const {
  refuse_to_overwrite(inputs, output);
  if (format != "github") return;
  refuse_to_overwrite(inputs, step_summary_path(output), "the summary", "GITHUB_STEP_SUMMARY");
}

}  // namespace assay
