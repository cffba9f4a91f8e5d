#pragma once

#include "assay/report/report.h"
#include "assay/weights/weights_comparison.h"

// What CI servers show of a comparison of two model files.
namespace assay {

// JUnit XML, one test case a tensor, and one for each key that counts. What could not be judged is
// a failure too: skipped cases read as if the file had passed.
class WeightsJunit : public Report<WeightsComparison> {
 public:
  std::string_view name() const override { return "junit"; }
  void write(const WeightsComparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
};

// The summary of a job and its annotations: see GithubReport.
class WeightsGithub : public Report<WeightsComparison> {
 public:
  std::string_view name() const override { return "github"; }
  bool is_step_summary() const override { return true; }
  void write(const WeightsComparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
  void write_annotations(const WeightsComparison& comparison, const TextSink& sink) const override;
};

}  // namespace assay
