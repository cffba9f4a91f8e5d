#include "assay/conform/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

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

constexpr double kLeftByExplanation = 0.1;
constexpr double kLeftWhereRounded = 1.0 / 3.0;
// Of explanations that leave so nearly the same, none is preferred.
constexpr double kAlike = 2.0;

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

struct Explanation {
  const Counterfactual* what = nullptr;
  double left = std::numeric_limits<double>::infinity();  // rel_l2
};

// Of the counterfactuals, those that leave least first.
std::vector<Explanation> explanations(const Feature& feature, const std::string& folder,
                                      const FeatureVerdict& verdict) {
  std::vector<Explanation> result;
  for (size_t i = 0; i < feature.counterfactuals.size(); ++i) {
    const Counterfactual& each = feature.counterfactuals[i];
    const std::string model = fmt::format("{}/counterfactual_{}", folder, i);
    write_feature_folder(feature, patched_config(feature.config, each.patch), each.tensors, model);
    const double left =
        output_error(own_log(feature, model, verdict.checkpoint), verdict.log, verdict.checkpoint)
            .rel_l2;
    if (std::isfinite(left)) result.push_back({&each, left});
  }
  std::ranges::stable_sort(result, {}, &Explanation::left);
  return result;
}

// The comparison of all that both logs hold, by what is clean for the precision.
Comparison compared(const Feature& feature, const Precision& precision, const std::string& log) {
  CompareOptions options;
  options.policy = Policy([&](const std::string&) {
    Tolerance tolerance;
    tolerance.rel_l2 = precision.clean;
    return tolerance;
  });
  return compare_logs(feature.reference, log, options);
}

void explain(const Feature& feature, const Precision& precision, const std::string& folder,
             FeatureVerdict& verdict) {
  const double error = verdict.error->rel_l2;
  const bool full = is_full_precision(precision);
  const double most = full ? std::max(precision.clean, kLeftByExplanation * error)
                           : std::min(precision.tolerance, kLeftWhereRounded * error);
  const std::vector<Explanation> tried = explanations(feature, folder, verdict);
  if (!tried.empty() && tried.front().left <= most) {
    const Counterfactual& best = *tried.front().what;
    verdict.conformity = best.ignored ? Conformity::kIgnored : Conformity::kMisread;
    verdict.cause = best.name;
    verdict.text = best.text;
    verdict.from_explained = tried.front().left;
    for (size_t i = 1; i < tried.size(); ++i) {
      if (tried[i].left > kAlike * tried.front().left && tried[i].left > precision.clean) break;
      verdict.text += fmt::format("; or {}", tried[i].what->text);
    }
  }
  Comparison comparison = compared(feature, precision, verdict.log);
  if (comparison.first_divergence) {
    verdict.first_divergence = comparison.first_divergence->checkpoint.name;
  }
  if (!verdict.cause.empty()) return;
  const Model model(std::make_shared<Gguf>(folder));
  find_causes(&model, comparison);
  if (comparison.causes.empty()) return;
  const Cause& cause = comparison.causes.front();
  verdict.conformity = Conformity::kMisread;
  verdict.cause = cause.name;
  verdict.text = cause.sentence;
}

// Takes the logits of the engine's log, or the output of its last layer if it has none.
void find_output(const Feature& feature, const std::string& folder, FeatureVerdict& verdict) {
  verdict.checkpoint = "logits";
  try {
    verdict.error = output_error(feature.reference, verdict.log, verdict.checkpoint);
  } catch (const NothingInCommon&) {
    const Model model(std::make_shared<Gguf>(folder));
    verdict.checkpoint = fmt::format("layer_{}_output", model.config().n_layers - 1);
    verdict.error = output_error(feature.reference, verdict.log, verdict.checkpoint);
  }
}

// What an engine logged may be right and show nothing: the output of a layer says nothing of the
// head, one position nothing of a window. Then the feature is not honoured, but unsupported.
void require_evidence(const Feature& feature, const Precision& precision, const std::string& folder,
                      FeatureVerdict& verdict) {
  if (verdict.checkpoint == "logits" && verdict.error->positions == verdict.error->total) return;
  for (const Explanation& each : explanations(feature, folder, verdict)) {
    if (each.left > precision.clean) continue;
    verdict.conformity = Conformity::kUnsupported;
    verdict.text =
        fmt::format("logs too little to tell it from an engine that {}", each.what->text);
    return;
  }
}

}  // namespace

OutputError output_error(const std::string& ref, const std::string& got,
                         const std::string& checkpoint) {
  CompareOptions options;
  options.selection.set_checkpoints(checkpoint, "--checkpoints");
  const Comparison comparison = compare_logs(ref, got, options);
  OutputError error;
  error.total = std::ssize(comparison.results) + std::ssize(comparison.gaps);
  double squares = 0.0;
  for (const RecordResult& result : comparison.results) {
    if (result.evidence == Evidence::kUnproven) continue;
    const bool is_distance = !result.failed() || result.failing_metric == Metric::kRelL2 ||
                             result.failing_metric == Metric::kArgmax;
    squares += is_distance ? result.metrics.rel_l2 * result.metrics.rel_l2
                           : std::numeric_limits<double>::quiet_NaN();
    ++error.positions;
  }
  error.rel_l2 = error.positions == 0 ? std::numeric_limits<double>::quiet_NaN()
                                      : std::sqrt(squares / static_cast<double>(error.positions));
  return error;
}

void judge(const Feature& feature, const Precision& precision, const std::string& folder,
           FeatureVerdict& verdict) {
  verdict.command = fmt::format("assay compare {} {} --model {}", shell_quoted(feature.reference),
                                shell_quoted(verdict.log), shell_quoted(folder));
  try {
    find_output(feature, folder, verdict);
  } catch (const Error& error) {
    verdict.conformity = Conformity::kCrashed;
    verdict.text = error.what();
    return;
  }
  const double error = verdict.error->rel_l2;
  verdict.conformity = error <= precision.clean ? Conformity::kHonoured : Conformity::kDiffers;
  if (error <= precision.clean) {
    require_evidence(feature, precision, folder, verdict);
    return;
  }
  if (std::isfinite(error)) explain(feature, precision, folder, verdict);
  if (verdict.conformity == Conformity::kDiffers && error <= precision.tolerance) {
    verdict.conformity = Conformity::kHonoured;
  }
  if (verdict.conformity == Conformity::kDiffers) {
    verdict.text = std::isfinite(error)
                       ? fmt::format("is off by {:.1e}, and nothing explains it", error)
                       : "logs values that are no numbers";
  }
}

}  // namespace assay
