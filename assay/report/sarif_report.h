#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// SARIF 2.1.0 (OASIS): one run, one result for each checkpoint that fails, the first divergence
// first. The rule is the metric that failed, the location the judged log and, as a logical
// location, the checkpoint.
class SarifReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "sarif"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
