#pragma once

#include <string>

#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// Writes the page of a fleet. `data`: what fleet/report.py computes of a table of results, one JSON
// object, whose "text" is shown where scripts are off. Throws Error naming `name` if it is not JSON
// or has no "text".
void write_fleet_page(const std::string& data, const std::string& name,
                      const ReportContext& context, const TextSink& sink);

}  // namespace assay
