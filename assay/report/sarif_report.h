#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// SARIF 2.1.0 (OASIS): one run, one result for each checkpoint that fails, the first divergence
// first. The rule is the metric that failed, the location the judged log and, as a logical
// location, the checkpoint.
void write_sarif(const Comparison& comparison, const ReportContext& context, const TextSink& sink);

}  // namespace assay
