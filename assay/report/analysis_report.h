#pragma once

#include <span>

#include "assay/compare/analysis.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// What each log holds, its garbage by reason and place, and what else is odd; with `stats` the
// statistics of each checkpoint. Several logs get a table of their rates on top. `other`, if there
// is one, is shown beside the first.
void write_table(std::span<const Analysis> logs, const Analysis* other, bool stats,
                 const TextStyle& style, const TextSink& sink);

// One JSON object: of the log; with `other` in its key "compare"; of several logs {"logs": [...]}.
void write_json(std::span<const Analysis> logs, const Analysis* other, const TextSink& sink);

}  // namespace assay
