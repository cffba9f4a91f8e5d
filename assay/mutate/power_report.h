#pragma once

#include "assay/mutate/power.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// The catalogue's results: as tables for a terminal, as one JSON object, and as the Markdown of
// docs/mutation.md.
void write_power_table(const Power& power, const TextStyle& style, const TextSink& out);
void write_power_json(const Power& power, const TextSink& out);
void write_power_markdown(const Power& power, const TextSink& out);

}  // namespace assay
