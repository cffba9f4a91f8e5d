#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// One page that needs nothing but itself: style, script and data are in it, and its policy lets a
// browser load nothing else and run no other script. Where scripts are off it shows the table.
void write_html(const Comparison& comparison, const ReportContext& context, const TextSink& sink);

}  // namespace assay
