#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// One JSON object with the keys of docs/reports.md. What is not known is null; what is not finite
// is "NaN", "Infinity" or "-Infinity".
class JsonReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "json"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
