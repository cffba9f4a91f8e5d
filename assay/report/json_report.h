#pragma once

#include <optional>

#include "assay/compare/analysis.h"
#include "assay/compare/comparison.h"
#include "assay/report/text_sink.h"

namespace assay {

// One JSON object with the keys of CONTRACT.md, all of them always there. What is not known is
// null; what is not finite is "NaN", "Infinity" or "-Infinity".
void write_json(const Comparison& comparison, const TextSink& sink);

// Of a log or, with `other`, of a log beside another: the second object is in the key "compare".
void write_json(const Analysis& analysis, const Analysis* other, const TextSink& sink);

}  // namespace assay
