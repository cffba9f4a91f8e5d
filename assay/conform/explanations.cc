#include "assay/conform/explanations.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/conform/feature_model.h"
#include "assay/conform/output_error.h"
#include "assay/record/run.h"
#include "base/error.h"

namespace assay {
namespace {

// Mistakes at a time, and sets of them to which another is added.
constexpr size_t kMostMistakes = 4;
constexpr size_t kKept = 3;

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

std::string causes_of(const Explanation& explanation) {
  return joined(explanation, &Counterfactual::name, ", ");
}

std::string text_of(const Explanation& explanation) {
  return joined(explanation, &Counterfactual::text, ", and ");
}

}  // namespace assay
