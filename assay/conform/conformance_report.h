#pragma once

#include "assay/conform/conformance.h"
#include "assay/report/report.h"

namespace assay {

// table: features down, engines across, then what each engine does that is not honoured.
// json: {"pass","engines":[{"name","version","precision","counts":{...},"features":[{"feature",
// "group","title","states","verdict","cause","text","checkpoint","rel_l2","from_explained",
// "positions","positions_total","first_divergence","log","command"}]}]}
// html: the same as a page of its own. junit: a suite an engine, a test a feature; what is not
// supported is skipped. github: a job's summary, with an annotation for each feature that is not
// honoured.
Reports<Conformance> conformance_reports();

// The data of the page, and the page.
std::string conformance_json(const Conformance& conformance);
void write_conformance_page(const Conformance& conformance, const ReportContext& context,
                            const TextSink& sink);

}  // namespace assay
