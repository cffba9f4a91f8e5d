#pragma once

#include "assay/compare/several.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// Who differs from whom: the sentence on top, then each two of the runs, and where the outliers
// first diverge.
void write_table(const SeveralComparison& several, const TextStyle& style, const TextSink& sink);

// {"consensus": "agree|outlier|cannot_tell", "pass", "why", "runs": [{"log", "engine", "model",
// "type", "outlier", "unproved"}], "pairs": [{"ref", "got", "verdict", "pass", "compared",
// "failed", "median_rel_l2", "worst_rel_l2", "worst_of_tolerance", "first_divergence"}]}
void write_json(const SeveralComparison& several, const TextSink& sink);

}  // namespace assay
