#pragma once

#include <string>
#include <vector>

#include "assay/report/report_context.h"

namespace assay {

// How fast an engine was, from the object that `assay run --json` prints (tokens a second of
// prefill and decode) or from the JSON of Google Benchmark (the median time of each benchmark).
// Throws Error naming the file if it is neither.
std::vector<SpeedFigure> read_speed_file(const std::string& path);

}  // namespace assay
