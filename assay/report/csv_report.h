#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// One line a record: token_idx, max_abs_diff, mean_abs_diff, ref_team, got_team, checkpoint, then
// the further metrics. Numbers have nine significant digits; what is not known is empty.
class CsvReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "csv"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
