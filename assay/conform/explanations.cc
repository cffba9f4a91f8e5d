#include "assay/conform/explanations.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "assay/causes/find_causes.h"
#include "assay/conform/feature_model.h"
#include "assay/conform/output_error.h"
#include "assay/record/run.h"
#include "base/error.h"
#include "engine/model.h"

namespace assay {
namespace {

// Mistakes at a time, and sets of them to which another is added.
constexpr size_t kMostMistakes = 4;
constexpr size_t kKept = 3;

// Mistakes of the feature that a search of the catalogue, of seconds, is tried beside.
constexpr size_t kMostBeside = 6;
constexpr double kLeftByAnother = 0.1;  // of what is left without it

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

// Where the model with these mistakes is, of which there is one at a time.
std::string mistaken_model(const std::vector<const Counterfactual*>& mistakes,
                           const Feature& feature, const std::string& folder) {
  std::string config = feature.config;
  ChangedTensors tensors;
  for (const Counterfactual* each : mistakes) {
    config = patched_config(config, each->patch);
    tensors.insert(tensors.end(), each->tensors.begin(), each->tensors.end());
  }
  std::string model = folder + "/counterfactual";
  write_feature_folder(feature, config, tensors, model);
  return model;
}

Explanation tried(std::vector<const Counterfactual*> mistakes, const Feature& feature,
                  const std::string& folder, const TableCell& cell) {
  const std::string model = mistaken_model(mistakes, feature, folder);
  const double left =
      output_error(own_log(feature, model, cell.checkpoint), cell.log, cell.checkpoint).rel_l2;
  return {std::move(mistakes),
          std::isfinite(left) ? left : std::numeric_limits<double>::infinity()};
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

// The mistake, and one of each other name: those of one name mostly exclude each other.
std::vector<const Counterfactual*> one_of_each_name(const Counterfactual& mistake,
                                                    const Feature& feature) {
  std::vector<const Counterfactual*> chosen = {&mistake};
  for (const Counterfactual& each : feature.counterfactuals) {
    if (std::ranges::none_of(chosen, [&](const auto* other) { return other->name == each.name; })) {
      chosen.push_back(&each);
    }
  }
  return chosen;
}

// What is between the mistakes' model and the log, if it is one mistake of the catalogue.
std::optional<MixedExplanation> beside(std::vector<const Counterfactual*> mistakes,
                                       const Feature& feature, double most,
                                       const std::string& folder, const TableCell& cell) {
  const std::string path = mistaken_model(mistakes, feature, folder);
  const std::string log = own_log(feature, path, cell.checkpoint);
  const double error = output_error(log, cell.log, cell.checkpoint).rel_l2;
  if (!std::isfinite(error)) return {};
  Comparison comparison = compared(log, cell.log, most);
  const Model model(std::make_shared<Gguf>(path));
  find_causes(&model, comparison);
  if (comparison.causes.empty()) return {};
  const Cause& cause = comparison.causes.front();
  const double left = std::sqrt(std::max(0.0, 1.0 - cause.explained)) * error;
  if (cause.name == kRounding || !(left <= most)) return {};
  return MixedExplanation{{std::move(mistakes), error}, cause, left};
}

std::string joined(const Explanation& explanation, std::string Counterfactual::*member,
                   const char* between) {
  std::string text;
  for (const Counterfactual* each : explanation.mistakes) {
    text += (text.empty() ? "" : between) + each->*member;
  }
  return text;
}

}  // namespace

std::vector<Explanation> explanations(const Feature& feature, const std::string& folder,
                                      const TableCell& cell) {
  std::vector<Explanation> result;
  for (const Counterfactual& each : feature.counterfactuals) {
    result.push_back(tried({&each}, feature, folder, cell));
  }
  std::ranges::stable_sort(result, {}, &Explanation::left);
  return result;
}

std::vector<Explanation> best_explanations(const Feature& feature, double clean,
                                           const std::string& folder, const TableCell& cell) {
  std::vector<Explanation> best = explanations(feature, folder, cell);
  std::vector<Explanation> last = best;
  for (size_t n = 2; n <= kMostMistakes && !best.empty(); ++n) {
    if (best.front().left <= clean) break;
    last = longer_explanations(last, feature, folder, cell);
    if (last.empty()) break;
    if (last.front().left <= kLeftByAnother * best.front().left) best = last;
  }
  return best;
}

std::optional<MixedExplanation> mixed_explanation(const Feature& feature, double most,
                                                  const std::string& folder,
                                                  const TableCell& cell) {
  std::vector<std::vector<const Counterfactual*>> sets;
  for (Explanation& single : explanations(feature, folder, cell)) {
    if (sets.size() < kMostBeside) sets.push_back(std::move(single.mistakes));
  }
  const size_t n_mistakes = feature.counterfactuals.size();
  if (n_mistakes > 1) {
    std::vector<const Counterfactual*>& all = sets.emplace_back();
    for (const Counterfactual& each : feature.counterfactuals) all.push_back(&each);
  }
  for (size_t i = 0; i < std::min(n_mistakes, kMostBeside); ++i) {
    const Counterfactual& each = feature.counterfactuals[i];
    const bool is_alone =
        std::ranges::count(feature.counterfactuals, each.name, &Counterfactual::name) == 1;
    if (is_alone) continue;
    auto chosen = one_of_each_name(each, feature);
    if (chosen.size() > 1) sets.push_back(std::move(chosen));
  }
  std::optional<MixedExplanation> best;
  for (std::vector<const Counterfactual*>& set : sets) {
    try {
      auto found = beside(std::move(set), feature, most, folder, cell);
      if (found && (!best || found->left < best->left)) best = std::move(found);
    } catch (const Error&) {
      continue;  // some that make no sense together, or a log of another model
    }
  }
  return best;
}

std::string causes_of(const Explanation& explanation) {
  return joined(explanation, &Counterfactual::name, ", ");
}

std::string text_of(const Explanation& explanation) {
  return joined(explanation, &Counterfactual::text, ", and ");
}

}  // namespace assay
