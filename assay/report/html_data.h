#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/report/page_records.h"
#include "assay/report/report_context.h"

namespace assay {

inline constexpr size_t kMaxPageGarbage = 5000;
inline constexpr size_t kMaxPageLogits = 128;  // tokens whose candidates are listed
inline constexpr size_t kMaxPageTimes = 400;

// What page.js draws, as JSON.
std::string html_data(const Comparison& comparison, const ReportContext& context);

}  // namespace assay
