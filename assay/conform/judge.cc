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

// What Assay's engine computes of the model in `folder`.
std::string own_log(const Feature& feature, const std::string& folder) {
  const std::string path = folder + "/logits.jsonl";
  RunOptions options;
  options.model_path = folder;
  options.tokens = feature.tokens;
  options.n_predict = 1;
  options.ignore_eos = true;
  options.backend = "cpu";
  LogOptions whole;
  whole.head_values = kAllValues;
  options.log.emplace(LogRequest{path, whole, CheckpointSet("logits")});
  run(options, {});
  return path;
}

struct Explanation {
  const Counterfactual* what = nullptr;
  double left = std::numeric_limits<double>::infinity();  // rel_l2
};

// Of the counterfactuals, those that leave least first.
std::vector<Explanation> explanations(const Feature& feature, const std::string& folder,
                                      const std::string& log) {
  std::vector<Explanation> result;
  for (size_t i = 0; i < feature.counterfactuals.size(); ++i) {
    const Counterfactual& each = feature.counterfactuals[i];
    const std::string model = fmt::format("{}/counterfactual_{}", folder, i);
    write_feature_folder(feature, patched_config(feature.config, each.patch), each.constants,
                         model);
    const double left = logits_error(own_log(feature, model), log).rel_l2;
    if (std::isfinite(left)) result.push_back({&each, left});
  }
  std::ranges::stable_sort(result, {}, &Explanation::left);
  return result;
}

// The comparison of all that both logs hold, by what is clean for the precision, with causes.
Comparison searched(const Feature& feature, const Precision& precision, const std::string& folder,
                    const std::string& log) {
  CompareOptions options;
  options.policy = Policy([&](const std::string&) {
    Tolerance tolerance;
    tolerance.rel_l2 = precision.clean;
    return tolerance;
  });
  Comparison comparison = compare_logs(feature.reference, log, options);
  const Model model(std::make_shared<Gguf>(folder));
  find_causes(&model, comparison);
  return comparison;
}

void explain(const Feature& feature, const Precision& precision, const std::string& folder,
             FeatureVerdict& verdict) {
  const double error = verdict.error->rel_l2;
  const bool full = is_full_precision(precision);
  const double most = full ? std::max(precision.clean, kLeftByExplanation * error)
                           : std::min(precision.tolerance, kLeftWhereRounded * error);
  const std::vector<Explanation> tried = explanations(feature, folder, verdict.log);
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
  const Comparison comparison = searched(feature, precision, folder, verdict.log);
  if (comparison.first_divergence) {
    verdict.first_divergence = comparison.first_divergence->checkpoint.name;
  }
  if (!verdict.cause.empty() || comparison.causes.empty()) return;
  const Cause& cause = comparison.causes.front();
  verdict.conformity = Conformity::kMisread;
  verdict.cause = cause.name;
  verdict.text = cause.sentence;
}

}  // namespace

LogitsError logits_error(const std::string& ref, const std::string& got) {
  CompareOptions options;
  options.selection.set_checkpoints("logits", "--checkpoints");
  const Comparison comparison = compare_logs(ref, got, options);
  LogitsError error;
  error.total = std::ssize(comparison.results) + std::ssize(comparison.gaps);
  double squares = 0.0;
  for (const RecordResult& result : comparison.results) {
    const bool held =
        result.evidence != Evidence::kUnproven &&
        (result.failing_metric == Metric::kNone || result.failing_metric == Metric::kRelL2 ||
         result.failing_metric == Metric::kArgmax);
    if (result.evidence == Evidence::kUnproven && !result.failed()) continue;
    squares += held ? result.metrics.rel_l2 * result.metrics.rel_l2
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
    verdict.error = logits_error(feature.reference, verdict.log);
  } catch (const Error& error) {
    verdict.conformity = Conformity::kCrashed;
    verdict.text = error.what();
    return;
  }
  const double error = verdict.error->rel_l2;
  verdict.conformity = error <= precision.clean ? Conformity::kHonoured : Conformity::kDiffers;
  if (error <= precision.clean) return;
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
