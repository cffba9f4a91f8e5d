#pragma once

#include "assay/perf/model_verdict.h"
#include "assay/report/report.h"

namespace assay {

class PerfPage : public Report<SpeedAndAccuracy> {
 public:
  std::string_view name() const override { return "html"; }
  void write(const SpeedAndAccuracy& judged, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
