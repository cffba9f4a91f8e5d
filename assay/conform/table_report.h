#pragma once

#include <string>

#include "assay/conform/engine_table.h"
#include "assay/report/report.h"

namespace assay {

// table: rows down, engines across, then what of each engine is bad.
// json: that of table_json.h. html: the same as a page of its own. junit: a suite an engine, a test
// a row; what is not supported is skipped. github: a job's summary with what is not right.
Reports<EngineTable> engine_table_reports();

void write_engine_table_page(const EngineTable& table, const ReportContext& context,
                             const TextSink& sink);

}  // namespace assay
