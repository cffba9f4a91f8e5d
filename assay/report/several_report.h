#pragma once

#include "assay/compare/several.h"
#include "assay/report/report.h"

namespace assay {

// table: who differs from whom, the sentence on top, then each two of the runs, and where the
// outliers first diverge.
// json: {"consensus": "agree|outlier|cannot_tell", "pass", "why", "runs": [{"log", "engine",
// "model", "type", "outlier", "unproved"}], "pairs": [{"ref", "got", "verdict", "pass", "compared",
// "failed", "median_rel_l2", "worst_rel_l2", "worst_of_tolerance", "first_divergence"}]}
Reports<SeveralComparison> several_reports();

}  // namespace assay
