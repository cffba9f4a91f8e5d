#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// For a person at a terminal: the verdict and the first divergence on top, then a table, the worst
// of each checkpoint or, where the logs hold few checkpoints, each record. The command is repeated
// as the way to see everything.
class TableReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "table"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
