#include "assay/cli/several_command.h"

#include <fmt/format.h>

#include "assay/cli/commands.h"
#include "assay/cli/flags.h"
#include "assay/cli/output.h"
#include "assay/compare/several.h"
#include "assay/report/several_report.h"
#include "base/error.h"

namespace assay {
namespace {

std::string nothing_proved(const std::string& ref, const std::string& got) {
  return fmt::format(
      "{}: parity with {} is not proved: one lacks records of the other, or could not be held to "
      "it, or they hold nothing but zeros; check that both engines ran, and what they log",
      printable(got), printable(ref));
}

}  // namespace

int run_several(const std::vector<std::string>& logs, const std::vector<std::string>& paths,
                const SpooledInputs& spooled, const CompareOptions& options,
                const ReportFlags& report) {
  if (find_report(several_reports(), report.format) == nullptr) {
    throw Error(fmt::format("'{}' is for two logs", report.format), "--format",
                "give " + alternatives(format_names(several_reports())));
  }
  SeveralComparison several = compare_several(paths, options, logs);
  spooled.print_warnings(several.warnings);
  show_report(several_reports(), several, report);
  if (several.consensus == Consensus::kAgree) return kInParity;
  if (several.consensus == Consensus::kOutlier) return kDiverged;
  bool diverged = false;
  const RunPair* unproved = nullptr;
  for (const RunPair& pair : several.pairs) {
    diverged = diverged || pair.failed > 0;
    if (unproved == nullptr && pair.verdict >= Verdict::kInconclusive) unproved = &pair;
  }
  if (diverged || unproved == nullptr) return kDiverged;
  print_error(nothing_proved(logs[unproved->a], logs[unproved->b]));
  return kNotComparable;
}

}  // namespace assay
