#pragma once

#include <string>
#include <vector>

#include "assay/cli/report_flags.h"
#include "assay/cli/spooled_inputs.h"
#include "assay/compare/compare_options.h"

namespace assay {

// `assay compare` of three logs or more: holds each against each, reports who is the outlier,
// and gives the exit code. `paths`: where `spooled` has the logs.
int run_several(const std::vector<std::string>& logs, const std::vector<std::string>& paths,
                const SpooledInputs& spooled, const CompareOptions& options,
                const ReportFlags& report);

}  // namespace assay
