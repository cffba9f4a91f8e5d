#pragma once

#include <cstddef>

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// What GitHub takes of a step: 1 MiB of summary, ten annotations of a kind.
inline constexpr size_t kGithubSummaryBytes = size_t{1} << 20;
inline constexpr size_t kGithubAnnotations = 10;

// Workflow commands for a step's standard output: `::error file=...,title=...::...`, the first
// divergence first, then the further checkpoints that fail; `::warning` for what proves nothing.
// Nothing where the two are in parity.
void write_github_annotations(const Comparison& comparison, const TextSink& sink);

// Markdown for $GITHUB_STEP_SUMMARY, at most `max_bytes` of it; what is left out is told.
void write_github_summary(const Comparison& comparison, const ReportContext& context,
                          size_t max_bytes, const TextSink& sink);

}  // namespace assay
