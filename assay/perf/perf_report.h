#pragma once

#include "assay/perf/model_verdict.h"
#include "assay/report/report.h"

namespace assay {

// table: the verdict on top, then a line a benchmark and a line a model.
// json: one object; see docs/ci.md for its keys.
// html: one page that needs nothing but itself.
// github: Markdown for the step summary of a job; omissions are listed.
Reports<SpeedAndAccuracy> perf_reports();

}  // namespace assay
