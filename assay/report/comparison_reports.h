#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// The formats of `assay compare`.
Reports<Comparison> comparison_reports();

}  // namespace assay
