#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/report/report.h"

namespace assay {

// What GitHub takes of a step: 1 MiB of summary, ten annotations of a kind.
inline constexpr size_t kGithubSummaryBytes = size_t{1} << 20;
inline constexpr size_t kGithubAnnotations = 10;

// `text` as the message, and as a property, of a workflow command.
std::string github_data(std::string_view text);
std::string github_property(std::string_view text);

// What a step shows as wrong.
struct GithubError {
  std::string file;  // may be empty
  std::string title;
  std::string message;
};

// The command itself, a line.
std::string github_error(const GithubError& error);

// As many as GitHub takes; the title of the last one counts those left: "1 more tensor", or with
// `many`.
void write_github_errors(const std::vector<GithubError>& errors, std::string_view one,
                         std::string_view many, const TextSink& sink);

// Markdown for $GITHUB_STEP_SUMMARY, at most ReportContext::max_bytes of it; what is left out is
// told.
class GithubReport : public Report<Comparison> {
 public:
  std::string_view name() const override { return "github"; }
  void write(const Comparison& comparison, const ReportContext& context,
             const TextSink& sink) const override;
  bool is_step_summary() const override { return true; }

  // Workflow commands for a step's standard output: `::error file=...,title=...::...`, the first
  // divergence first, then the further checkpoints that fail; `::warning` for what proves nothing.
  // Nothing where the two are in parity.
  void write_annotations(const Comparison& comparison, const TextSink& sink) const override;
};

}  // namespace assay
