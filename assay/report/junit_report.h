#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// The start of a suite, up to its `>`, and one line of its <properties>.
std::string junit_suite(std::string_view name, const ReportContext& context, int64_t tests,
                        int64_t failures, int64_t skipped);
std::string junit_property(std::string_view name, std::string_view value);

// JUnit XML, one test case a checkpoint, in the order in which the network computes. Holds to the
// schemas of both Ant (JUnit.xsd of Windy Road) and Jenkins (junit-10.xsd of its xUnit plugin),
// which GitLab and the readers for GitHub take as well. Checkpoints of which nothing is proved are
// skipped cases that say why.
class JunitReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "junit"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

}  // namespace assay
