#pragma once

#include "assay/perf/perf_comparison.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// For a terminal: the verdict on top, then a line a benchmark.
void write_table(const PerfComparison& comparison, const TextStyle& style, const TextSink& sink);

// One JSON object; see README for its keys.
void write_json(const PerfComparison& comparison, const TextSink& sink);

// Markdown for the step summary of a GitHub job.
void write_github(const PerfComparison& comparison, const TextSink& sink);

}  // namespace assay
