#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// A page holds at most this many records: where there are more, neighbouring tokens are put
// together, and the worst record of a checkpoint among them stands for all.
inline constexpr int64_t kMaxPageRecords = 20000;
inline constexpr size_t kMaxPageGarbage = 5000;
inline constexpr size_t kMaxPageLogits = 128;  // tokens whose candidates are listed
inline constexpr size_t kMaxPageTimes = 400;

// What page.js draws, as JSON in ASCII without <, > and &, so that no text in it can end the
// element that holds it.
void write_html_data(const Comparison& comparison, const ReportContext& context,
                     const TextSink& sink);

}  // namespace assay
