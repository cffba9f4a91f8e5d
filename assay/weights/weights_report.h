#pragma once

#include "assay/report/report.h"
#include "assay/weights/weights_comparison.h"

namespace assay {

// The formats in which a comparison of two model files can be shown: table, json,
// junit and github.
Reports<WeightsComparison> weights_reports();

}  // namespace assay
