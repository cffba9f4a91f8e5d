#include "assay/conform/output_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "assay/compare/compare_logs.h"
#include "assay/compare/log_probabilities.h"

namespace assay {
namespace {

// The tokens of a case are known, so no other counting of positions may explain a log.
CompareOptions by_position() {
  CompareOptions options;
  options.align = AlignMode::kIndex;
  return options;
}

std::string problem_of(const RecordResult& result) {
  if (result.failing_metric == Metric::kSize) {
    return fmt::format("logs an output of another size at token {}", result.token_idx);
  }
  if (result.failing_metric == Metric::kContradiction) {
    return fmt::format("logs a record at token {} that contradicts itself: {}", result.token_idx,
                       result.reason);
  }
  if (result.failing_metric == Metric::kArgmax) {
    return fmt::format("chooses another token at token {}, and logs no value that shows why",
                       result.token_idx);
  }
  return fmt::format("logs values at token {} that are no numbers", result.token_idx);
}

// Whether the error is that of something: of a choice alone it is 0, whatever is chosen.
bool is_distance(const RecordResult& result) {
  if (!result.failed() || result.failing_metric == Metric::kRelL2) return true;
  return result.failing_metric == Metric::kArgmax && result.metrics.facts.any();
}

bool compares_whole(const RecordResult& result) {
  const SharedFacts& facts = result.metrics.facts;
  return result.evidence == Evidence::kWhole ||
         (result.failed() && (facts.all_values || facts.sketch));
}

// Adds a record's squared distance to error.rel_l2; finish() makes the root mean square of it.
void add_record(const RecordResult& result, OutputError& error) {
  if (result.evidence == Evidence::kUnproven) return;
  error.rel_l2 += is_distance(result) ? result.metrics.rel_l2 * result.metrics.rel_l2
                                      : std::numeric_limits<double>::quiet_NaN();
  if (error.problem.empty() && !std::isfinite(error.rel_l2)) error.problem = problem_of(result);
  error.values =
      std::max<int64_t>(error.values, 0) + result.metrics.compared + result.metrics.listed;
  ++error.positions;
  error.whole += compares_whole(result) ? 1 : 0;
}

void finish(OutputError& error) {
  error.rel_l2 = error.positions == 0
                     ? std::numeric_limits<double>::quiet_NaN()
                     : std::sqrt(error.rel_l2 / static_cast<double>(error.positions));
}

}  // namespace

OutputError output_error(const std::string& ref, const std::string& got,
                         const std::string& checkpoint) {
  CompareOptions options = by_position();
  // Log-probabilities may stand for logits.
  options.selection.set_checkpoints(checkpoint == kLogitsName ? "log[ip]*" : checkpoint,
                                    "--checkpoints");
  const Comparison comparison = compare_logs(ref, got, options);
  OutputError error;
  error.total = std::ssize(comparison.gaps);
  for (const RecordResult& result : comparison.results) {
    if (!result.selected) continue;  // of another checkpoint, and with a NaN
    ++error.total;
    add_record(result, error);
  }
  finish(error);
  return error;
}

std::vector<std::pair<std::string, OutputError>> inner_errors(const std::string& ref,
                                                              const std::string& got,
                                                              double limit) {
  const Comparison comparison = compared(ref, got, limit);
  std::map<std::pair<int64_t, int32_t>, OutputError> errors;  // as the network computes
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    if (is_logits_name(name.name) || !name.known) continue;
    const int64_t place = comparison.order[static_cast<size_t>(result.checkpoint)];
    add_record(result, errors[{place, result.checkpoint}]);
  }
  std::vector<std::pair<std::string, OutputError>> found;
  for (auto& [place, error] : errors) {
    if (error.positions == 0) continue;
    finish(error);
    error.total = error.positions;
    found.emplace_back(comparison.checkpoints[static_cast<size_t>(place.second)].name, error);
  }
  return found;
}

Comparison compared(const std::string& ref, const std::string& got, double limit) {
  CompareOptions options = by_position();
  options.policy = Policy([limit](const std::string&) {
    Tolerance tolerance;
    tolerance.rel_l2 = limit;
    return tolerance;
  });
  return compare_logs(ref, got, options);
}

}  // namespace assay
