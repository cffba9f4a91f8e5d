#pragma once

#include <span>

#include "assay/compare/analysis.h"
#include "assay/report/report.h"

namespace assay {

// What `assay analyze` shows.
struct Analyses {
  std::span<const Analysis> logs;
  const Analysis* other = nullptr;  // to be shown beside the first
  bool stats = false;               // of each checkpoint, in the table too
};

// table: what each log holds, its garbage by reason and place, and what else is odd. Several logs
// get a table of their rates on top.
// json: one object: of the log, with `other` in its key "compare"; of several logs {"logs": [...]}.
Reports<Analyses> analysis_reports();

}  // namespace assay
