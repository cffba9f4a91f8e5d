#pragma once

#include <string>

#include "assay/conform/engine_table.h"
#include "assay/report/report.h"

namespace assay {

// table: rows down, engines across, then what of each engine is bad.
// json: {"pass","engines":[{"name","version","precision","counts":{...},"features":[{"feature",
// "group","title","states","verdict","cause","text","checkpoint","rel_l2","from_explained",
// "positions","positions_total","first_divergence","log","compare","command"}]}]}; of invariance
// "surfaces" and "surface" in place of "features" and "feature". html: the same as a page of its
// own. junit: a suite an engine, a test a row; what is not supported is skipped. github: a job's
// summary with what is not right.
Reports<EngineTable> engine_table_reports();

// The data of the page, and the page.
std::string engine_table_json(const EngineTable& table);
void write_engine_table_page(const EngineTable& table, const ReportContext& context,
                             const TextSink& sink);

}  // namespace assay
