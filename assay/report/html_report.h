#pragma once

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// One page that needs nothing but itself: style, script and data are in it, and its policy lets a
// browser load nothing else and run no other script. Where scripts are off it shows the table.
class HtmlReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "html"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
