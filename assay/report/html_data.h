#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/report/report_context.h"

namespace assay {

// A page holds at most this many records: where there are more, neighbouring tokens are put
// together, and the worst record of a checkpoint among them stands for all.
inline constexpr int64_t kMaxPageRecords = 20000;
inline constexpr size_t kMaxPageGarbage = 5000;
inline constexpr size_t kMaxPageLogits = 128;  // tokens whose candidates are listed
inline constexpr size_t kMaxPageTimes = 400;

// What page.js draws, as JSON.
std::string html_data(const Comparison& comparison, const ReportContext& context);

}  // namespace assay
