#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/text_sink.h"

namespace assay {

// One JSON object with the keys of docs/reports.md. What is not known is null; what is not finite
// is "NaN", "Infinity" or "-Infinity".
void write_json(const Comparison& comparison, const TextSink& sink);

}  // namespace assay
