#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/text_sink.h"

namespace assay {

// One line a record: token_idx, max_abs_diff, mean_abs_diff, ref_team, got_team, checkpoint, then
// the further metrics. Numbers have nine significant digits; what is not known is empty.
void write_csv(const Comparison& comparison, const TextSink& sink);

}  // namespace assay
