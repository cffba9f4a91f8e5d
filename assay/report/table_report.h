#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// For a person at a terminal: the verdict and the first divergence on top, then a table, the worst
// of each checkpoint or, where the logs hold few checkpoints, each record. `command` is what was
// typed; it is repeated as the way to see everything.
void write_table(const Comparison& comparison, const std::string& command, const TextStyle& style,
                 const TextSink& sink);

}  // namespace assay
