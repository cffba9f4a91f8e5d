#include "assay/conform/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "assay/causes/find_causes.h"
#include "assay/compare/compare_logs.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/conform/feature_model.h"
#include "assay/record/run.h"
#include "base/error.h"
#include "base/shell.h"
#include "engine/model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kLogits[] = "logits";
constexpr char kRounding[] = "rounding";
constexpr double kLeftByExplanation = 0.1;
constexpr double kLeftWhereRounded = 1.0 / 3.0;
// Of explanations that leave so nearly the same, none is preferred.
constexpr double kAlike = 2.0;
// Mistakes at a time, and sets of them to which another is added.
constexpr size_t kMostMistakes = 4;
constexpr size_t kKept = 3;

bool is_full_precision(const Precision& precision) {
  return precision.name == "float32";
}

// What Assay's engine computes of the model in `folder` at the checkpoint.
std::string own_log(const Feature& feature, const std::string& folder,
                    const std::string& checkpoint) {
  const std::string path = folder + "/log.jsonl";
  RunOptions options;
  options.model_path = folder;
  options.tokens = feature.tokens;
  options.n_predict = 0;
  options.backend = "cpu";
  LogOptions whole;
  whole.head_values = kAllValues;
  options.log.emplace(LogRequest{path, whole, CheckpointSet(checkpoint)});
  run(options, {});
  return path;
}

// Mistakes that an engine may make together, and how far it is from that: rel_l2.
struct Explanation {
  std::vector<const Counterfactual*> mistakes;
  double left = std::numeric_limits<double>::infinity();
};

Explanation tried(std::vector<const Counterfactual*> mistakes, const Feature& feature,
                  const std::string& folder, const TableCell& cell) {
  std::string config = feature.config;
  ChangedTensors tensors;
  for (const Counterfactual* each : mistakes) {
    config = patched_config(config, each->patch);
    tensors.insert(tensors.end(), each->tensors.begin(), each->tensors.end());
  }
  const std::string model = folder + "/counterfactual";
  write_feature_folder(feature, config, tensors, model);
  const double left =
      output_error(own_log(feature, model, cell.checkpoint), cell.log, cell.checkpoint).rel_l2;
  return {std::move(mistakes),
          std::isfinite(left) ? left : std::numeric_limits<double>::infinity()};
}

// Those of one mistake, that leave least first.
std::vector<Explanation> explanations(const Feature& feature, const std::string& folder,
                                      const TableCell& cell) {
  std::vector<Explanation> result;
  for (const Counterfactual& each : feature.counterfactuals) {
    result.push_back(tried({&each}, feature, folder, cell));
  }
  std::ranges::stable_sort(result, {}, &Explanation::left);
  return result;
}

// The best few of `shorter` with one mistake more.
std::vector<Explanation> longer_explanations(const std::vector<Explanation>& shorter,
                                             const Feature& feature, const std::string& folder,
                                             const TableCell& cell) {
  std::vector<Explanation> result;
  for (size_t i = 0; i < std::min(shorter.size(), kKept); ++i) {
    for (const Counterfactual& each : feature.counterfactuals) {
      std::vector<const Counterfactual*> mistakes = shorter[i].mistakes;
      if (std::ranges::find(mistakes, &each) != mistakes.end()) continue;
      mistakes.push_back(&each);
      try {
        result.push_back(tried(std::move(mistakes), feature, folder, cell));
      } catch (const Error&) {
        continue;  // two that make no sense together
      }
    }
  }
  std::ranges::stable_sort(result, {}, &Explanation::left);
  return result;
}

// Those with as few mistakes as leave little, best first: each mistake more has to explain nearly
// all of what is left without it.
std::vector<Explanation> best_explanations(const Feature& feature, const Precision& precision,
                                           const std::string& folder, const TableCell& cell) {
  std::vector<Explanation> best = explanations(feature, folder, cell);
  std::vector<Explanation> last = best;
  for (size_t n = 2; n <= kMostMistakes && !best.empty(); ++n) {
    if (best.front().left <= precision.clean) break;
    last = longer_explanations(last, feature, folder, cell);
    if (last.empty()) break;
    if (last.front().left <= kLeftByExplanation * best.front().left) best = last;
  }
  return best;
}

std::string joined(const Explanation& explanation, std::string Counterfactual::*member,
                   const char* between) {
  std::string text;
  for (const Counterfactual* each : explanation.mistakes) {
    text += (text.empty() ? "" : between) + each->*member;
  }
  return text;
}

std::string text_of(const Explanation& explanation) {
  return joined(explanation, &Counterfactual::text, ", and ");
}

// The tokens of a case are known, so no other counting of positions may explain a log.
CompareOptions by_position() {
  CompareOptions options;
  options.align = AlignMode::kIndex;
  return options;
}

// The comparison of all that both logs hold, by one limit of rel_l2.
Comparison compared(const Feature& feature, double limit, const std::string& log) {
  CompareOptions options = by_position();
  options.policy = Policy([limit](const std::string&) {
    Tolerance tolerance;
    tolerance.rel_l2 = limit;
    return tolerance;
  });
  return compare_logs(feature.reference, log, options);
}

void explain(const Feature& feature, const Precision& precision, const std::string& folder,
             TableCell& cell) {
  const double error = cell.error->rel_l2;
  const bool full = is_full_precision(precision);
  const double most =
      full ? std::max(precision.clean, std::min(precision.tolerance, kLeftByExplanation * error))
           : std::min(precision.tolerance, kLeftWhereRounded * error);
  const std::vector<Explanation> found = best_explanations(feature, precision, folder, cell);
  if (!found.empty() && found.front().left <= most) {
    const Explanation& best = found.front();
    const bool ignored = std::ranges::all_of(best.mistakes, &Counterfactual::ignored);
    cell.finding = ignored ? Finding::kIgnored : Finding::kMisread;
    cell.cause = joined(best, &Counterfactual::name, ", ");
    cell.text = text_of(best);
    cell.from_explained = best.left;
    for (size_t i = 1; i < found.size(); ++i) {
      if (found[i].left > kAlike * best.left && found[i].left > precision.clean) break;
      cell.text += "; or " + text_of(found[i]);
    }
  }
  Comparison comparison = compared(feature, precision.clean, cell.log);
  if (comparison.first_divergence) {
    cell.first_divergence = comparison.first_divergence->checkpoint.name;
  }
  if (!cell.cause.empty()) return;
  const Model model(std::make_shared<Gguf>(folder));
  find_causes(&model, comparison);
  if (comparison.causes.empty()) return;
  const Cause& cause = comparison.causes.front();
  // Of engines that round, rounding is no mistake: how far it may lead decides.
  if (!full && cause.name == kRounding) return;
  // What explains nearly all squares may leave far more than rounding does.
  if (!(std::sqrt(std::max(0.0, 1.0 - cause.explained)) * error <= most)) {
    cell.text = "in part, " + cause.sentence;
    return;
  }
  cell.finding = Finding::kMisread;
  cell.cause = cause.name;
  cell.text = cause.sentence;
}

std::string problem_of(const RecordResult& result) {
  if (result.failing_metric == Metric::kSize) {
    return fmt::format("logs an output of another size at token {}", result.token_idx);
  }
  if (result.failing_metric == Metric::kContradiction) {
    return fmt::format("logs a record at token {} that contradicts itself: {}", result.token_idx,
                       result.reason);
  }
  return fmt::format("logs values at token {} that are no numbers", result.token_idx);
}

// Adds a record's squared distance to error.rel_l2; finish() makes the root mean square of it.
void add_record(const RecordResult& result, OutputError& error) {
  if (result.evidence == Evidence::kUnproven) return;
  const bool is_distance = !result.failed() || result.failing_metric == Metric::kRelL2 ||
                           result.failing_metric == Metric::kArgmax;
  error.rel_l2 += is_distance ? result.metrics.rel_l2 * result.metrics.rel_l2
                              : std::numeric_limits<double>::quiet_NaN();
  if (error.problem.empty() && !std::isfinite(error.rel_l2)) error.problem = problem_of(result);
  ++error.positions;
  error.whole += result.evidence == Evidence::kWhole || result.failed() ? 1 : 0;
}

void finish(OutputError& error) {
  error.rel_l2 = error.positions == 0
                     ? std::numeric_limits<double>::quiet_NaN()
                     : std::sqrt(error.rel_l2 / static_cast<double>(error.positions));
}

// Takes the logits of the engine's log, or the output of its last layer if it has none.
void find_output(const Feature& feature, const std::string& folder, TableCell& cell) {
  cell.checkpoint = kLogits;
  try {
    cell.error = output_error(feature.reference, cell.log, cell.checkpoint);
    if (cell.error->positions > 0) return;
  } catch (const NothingInCommon&) {
    cell.error.reset();
  }
  const Model model(std::make_shared<Gguf>(folder));
  cell.checkpoint = fmt::format("layer_{}_output", model.config().n_layers - 1);
  try {
    cell.error = output_error(feature.reference, cell.log, cell.checkpoint);
    if (cell.error->positions > 0) return;
  } catch (const NothingInCommon&) {
    cell.error.reset();
  }
  throw Error(fmt::format("its log has no values of logits, logprobs or {} at the positions of the "
                          "case",
                          cell.checkpoint),
              cell.log);
}

bool is_output(const std::string& checkpoint) {
  return checkpoint == kLogits || checkpoint == "logprobs";
}

// Right logits are no excuse for another checkpoint that is wrong: what an engine logs under a name
// of Assay's is its own statement of what it computed there. Held to what rounding may cost, the
// first as the network computes decides. Names that Assay does not know say nothing.
void require_right_checkpoints(const Feature& feature, const Precision& precision,
                               TableCell& cell) {
  const Comparison comparison = compared(feature, precision.tolerance, cell.log);
  std::map<std::pair<int64_t, int32_t>, OutputError> errors;  // as the network computes
  for (const RecordResult& result : comparison.results) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    if (is_output(name.name) || !name.known) continue;
    const int64_t place = comparison.order[static_cast<size_t>(result.checkpoint)];
    add_record(result, errors[{place, result.checkpoint}]);
  }
  for (auto& [place, error] : errors) {
    if (error.positions == 0) continue;
    finish(error);
    if (error.rel_l2 <= precision.tolerance) continue;
    const std::string& name = comparison.checkpoints[static_cast<size_t>(place.second)].name;
    cell.finding = Finding::kDiffers;
    cell.text = fmt::format(
        "{} within {:.1e}, but {} {}", cell.checkpoint, cell.error->rel_l2, name,
        error.problem.empty() ? fmt::format("is off by {:.1e}", error.rel_l2) : error.problem);
    error.total = error.positions;
    cell.error = error;
    cell.checkpoint = name;
    cell.first_divergence = name;
    return;
  }
}

// What an engine logged may be right and show nothing: the output of a layer says nothing of the
// head, one position nothing of a window. Then the feature is not honoured, but unsupported.
void require_evidence(const Feature& feature, const Precision& precision, const std::string& folder,
                      TableCell& cell) {
  if (cell.error->positions < cell.error->total) {
    cell.text = fmt::format("at {} of {} positions", cell.error->positions, cell.error->total);
  }
  if (cell.checkpoint == kLogits && cell.error->whole == cell.error->total) return;
  const bool leaves_out = cell.checkpoint != kLogits || cell.error->positions < cell.error->total;
  if (feature.counterfactuals.empty() && leaves_out) {
    cell.finding = Finding::kUnsupported;
    cell.text = "logs too little of it: give the logits of all positions";
    return;
  }
  for (const Explanation& each : explanations(feature, folder, cell)) {
    if (each.left > precision.clean) continue;
    cell.finding = Finding::kUnsupported;
    cell.text = "logs too little to tell it from an engine that " + text_of(each);
    return;
  }
}

}  // namespace

OutputError output_error(const std::string& ref, const std::string& got,
                         const std::string& checkpoint) {
  CompareOptions options = by_position();
  // Log-probabilities may stand for logits.
  options.selection.set_checkpoints(checkpoint == kLogits ? "log[ip]*" : checkpoint,
                                    "--checkpoints");
  const Comparison comparison = compare_logs(ref, got, options);
  OutputError error;
  error.total = std::ssize(comparison.results) + std::ssize(comparison.gaps);
  for (const RecordResult& result : comparison.results) add_record(result, error);
  finish(error);
  return error;
}

void judge(const Feature& feature, const Precision& precision, const std::string& folder,
           TableCell& cell) {
  cell.compare = fmt::format("assay compare {} {} --model {}", shell_quoted(feature.reference),
                             shell_quoted(cell.log), shell_quoted(folder));
  try {
    find_output(feature, folder, cell);
  } catch (const Error& error) {
    cell.finding = Finding::kCrashed;
    cell.text = error.what();
    return;
  }
  const double error = cell.error->rel_l2;
  cell.finding = error <= precision.clean ? Finding::kHonoured : Finding::kDiffers;
  if (error <= precision.clean) {
    require_evidence(feature, precision, folder, cell);
    require_right_checkpoints(feature, precision, cell);
    return;
  }
  if (std::isfinite(error)) explain(feature, precision, folder, cell);
  if (cell.finding != Finding::kDiffers) return;
  if (error <= precision.tolerance) {
    cell.finding = Finding::kHonoured;
    cell.text = fmt::format("is off by {:.1e}, which {} may cost", error, precision.name);
    require_right_checkpoints(feature, precision, cell);
  } else if (std::isfinite(error)) {
    cell.text =
        fmt::format("is off by {:.1e}; {}", error,
                    cell.text.empty() ? "no mistake that was tried explains it" : cell.text);
  } else {
    cell.text = cell.error->problem;
  }
}

}  // namespace assay
