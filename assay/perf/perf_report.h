#pragma once

#include <cstddef>
#include <string>

#include "assay/perf/model_verdict.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// For a terminal: the verdict on top, then a line a benchmark and a line a model.
void write_table(const SpeedAndAccuracy& judged, const TextStyle& style, const TextSink& sink);

// One JSON object; see docs/ci.md for its keys.
void write_json(const SpeedAndAccuracy& judged, const TextSink& sink);

// Markdown for the step summary of a GitHub job, at most `max_bytes` of it; what is left out is
// told.
void write_github(const SpeedAndAccuracy& judged, size_t max_bytes, const TextSink& sink);

// One page that needs nothing but itself.
void write_html(const SpeedAndAccuracy& judged, const ReportContext& context, const TextSink& sink);

}  // namespace assay
