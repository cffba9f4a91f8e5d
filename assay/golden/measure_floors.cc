#include "assay/golden/measure_floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "assay/compare/compare_logs.h"
#include "assay/compare/garbage.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/median.h"
#include "assay/compare/several.h"
#include "base/error.h"

namespace assay {
namespace {

// Of the first layer: 0.12 where weights are stored in 3 bits (docs/tolerances.md).
constexpr double kMostOfFirstLayer = 0.2;
// From one layer to the next, at most: the floors of the goldens grow by 7.3.
constexpr double kMostGrowth = 10;
// The error at one token, of the median over tokens: 15.6 in honest runs (docs/tolerances.md).
constexpr double kMostOverMedian = 50;

// What no noise is beyond.
Tolerance widest() {
  Tolerance tolerance;
  tolerance.rel_l2 = kWidestTolerance;
  return tolerance;
}

const std::string& name_of(const Comparison& comparison, int32_t checkpoint) {
  return comparison.checkpoints[static_cast<size_t>(checkpoint)].name;
}

void refuse_same_files(const std::vector<std::string>& paths) {
  for (size_t b = 0; b < paths.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      std::error_code none;
      if (!std::filesystem::equivalent(paths[a], paths[b], none)) continue;
      throw Error(fmt::format("is the same file as {}", paths[a]), paths[b],
                  "a run is not noise to itself: give logs of several runs");
    }
  }
}

void refuse_failure(const Comparison& comparison) {
  if (!comparison.first_divergence) return;
  const FirstDivergence& first = *comparison.first_divergence;
  throw Error(fmt::format("'{}' at token {} fails by {} ({:.3g}) against {}: that is no noise",
                          printable(first.checkpoint.name, 80), first.token_idx,
                          metric_name(first.metric), first.value, comparison.ref_path),
              comparison.got_path, "assay compare says more; floors take honest runs alone");
}

void refuse_other_positions(const Comparison& comparison) {
  if (comparison.alignment.offset != 0) {
    throw Error(fmt::format("position t of {} is position t{:+} there: they are not of the same "
                            "tokens",
                            comparison.ref_path, comparison.alignment.offset),
                comparison.got_path, "run the same tokens, with or without BOS in both");
  }
  if (comparison.split) {
    const int64_t at = comparison.split->token_idx;
    throw Error(
        fmt::format("goes on with another token than {} from {} on", comparison.ref_path, at),
        comparison.got_path,
        fmt::format("give --tokens ..{}, or log it again with assay run --follow {}", at - 1,
                    comparison.ref_path));
  }
  const auto other = std::ranges::find(comparison.flips, false, &ExpertFlip::same_experts);
  if (other != comparison.flips.end()) {
    const ExpertFlip& flip = *other;
    throw Error(fmt::format("'{}' at token {} chooses other experts than {}: what follows from "
                            "them is no noise",
                            printable(name_of(comparison, flip.checkpoint), 80), flip.token_idx,
                            comparison.ref_path),
                comparison.got_path,
                fmt::format("log it again with assay run --replay-routing {}, or narrow --tokens "
                            "and --checkpoints",
                            comparison.ref_path));
  }
}

void refuse_unproven(const Comparison& comparison) {
  if (const auto& first = comparison.evidence.first_unproven) {
    throw Error(
        fmt::format("{} of {} records of {} are not whole there, the first '{}' at token "
                    "{}: {}",
                    comparison.evidence.unproven,
                    comparison.evidence.unproven + comparison.evidence.whole, comparison.ref_path,
                    printable(first->checkpoint.name, 80), first->token_idx, first->reason),
        comparison.got_path,
        "log all values or a sketch in each (--values all or --sketch), or narrow "
        "--checkpoints and --tokens");
  }
  for (const RecordResult& result : comparison.results) {
    if (result.status != Verdict::kInconclusive) continue;
    throw Error(fmt::format("'{}' at token {} is all zeros, there and in {}: that shows no noise",
                            printable(name_of(comparison, result.checkpoint), 80), result.token_idx,
                            comparison.ref_path),
                comparison.got_path, "check that both engines ran, or narrow --checkpoints");
  }
}

// Padding of the logits is a property of the model.
void refuse_garbage(const Comparison& comparison) {
  const auto first = std::ranges::find_if(comparison.quarantine, [](const QuarantinedValue& value) {
    return value.garbage.reason != GarbageReason::kPadding;
  });
  if (first == comparison.quarantine.end()) return;
  throw Error(fmt::format("has garbage, such as {} at index {} of '{}' at token {} ({})",
                          first->garbage.value, first->garbage.index,
                          printable(name_of(comparison, first->checkpoint), 80), first->token_idx,
                          garbage_reason_name(first->garbage.reason)),
              first->in_ref ? comparison.ref_path : comparison.got_path,
              "log it again; assay analyze says where garbage comes from");
}

// The checkpoint of a layer that is furthest off, by its median over tokens.
struct WorstOfLayer {
  std::string checkpoint;
  double rel_l2 = 0;
};

// By layer, if they are logged; what follows all layers comes last.
std::map<int, WorstOfLayer> worst_of_layers(const Comparison& comparison) {
  std::map<int32_t, std::vector<double>> errors;
  for (const RecordResult& result : comparison.results) {
    errors[result.checkpoint].push_back(result.metrics.rel_l2);
  }
  std::map<int, WorstOfLayer> worst;
  for (auto& [checkpoint, of_checkpoint] : errors) {
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(checkpoint)];
    const bool is_behind = name.op == "final_norm" || is_logits_name(name.name);
    if ((name.layer < 0 && !is_behind) || holds_ids(name)) continue;
    WorstOfLayer& layer = worst[is_behind ? std::numeric_limits<int>::max() : name.layer];
    const double median = upper_median(of_checkpoint);
    if (layer.checkpoint.empty() || median > layer.rel_l2) layer = {name.name, median};
  }
  return worst;
}

// Rounding adds up from layer to layer; a mistake is made in one.
void refuse_jump(const Comparison& comparison) {
  const WorstOfLayer* before = nullptr;
  const std::map<int, WorstOfLayer> layers = worst_of_layers(comparison);
  const auto first = layers.find(0);
  if (first != layers.end() && !(first->second.rel_l2 <= kMostOfFirstLayer)) {
    throw Error(
        fmt::format("the error against {} is {:.3g} at '{}', in the first layer: that looks "
                    "like a mistake and not like noise",
                    comparison.ref_path, first->second.rel_l2,
                    printable(first->second.checkpoint, 80)),
        comparison.got_path,
        "assay compare looks for its cause; give --accept-jumps if the arithmetic is so "
        "coarse");
  }
  for (const auto& [layer, worst] : layers) {
    const WorstOfLayer* last = std::exchange(before, &worst);
    if (last == nullptr || worst.rel_l2 <= kMostGrowth * last->rel_l2) continue;
    throw Error(fmt::format("the error against {} jumps from {:.3g} in the layer before to {:.3g} "
                            "at '{}': that looks like a mistake and not like noise",
                            comparison.ref_path, last->rel_l2, worst.rel_l2,
                            printable(worst.checkpoint, 80)),
                comparison.got_path,
                "assay compare looks for its cause; give --accept-jumps if other arithmetic begins "
                "there");
  }
}

// Rounding is spread over the tokens; a mistake at one is not. Errors below what a logged value is
// rounded by count as that.
void refuse_outlier(const Comparison& comparison) {
  std::map<int32_t, std::vector<std::pair<double, int64_t>>> errors;  // with their tokens
  for (const RecordResult& result : comparison.results) {
    errors[result.checkpoint].emplace_back(result.metrics.rel_l2, result.token_idx);
  }
  for (auto& [checkpoint, of_tokens] : errors) {
    if (holds_ids(comparison.checkpoints[static_cast<size_t>(checkpoint)])) continue;
    std::ranges::sort(of_tokens);
    const double median = std::max(kLeastFloor, of_tokens[(of_tokens.size() - 1) / 2].first);
    const auto& [worst, token_idx] = of_tokens.back();
    if (worst <= kMostOverMedian * median) continue;
    throw Error(fmt::format("the error of '{}' against {} is {:.3g} at token {} and {:.3g} in the "
                            "median over tokens: that looks like a mistake and not like noise",
                            printable(name_of(comparison, checkpoint), 80), comparison.ref_path,
                            worst, token_idx, median),
                comparison.got_path,
                "assay compare says more; leave the token out with --tokens, or give "
                "--accept-jumps if other arithmetic is used there");
  }
}

// Refuses what one cannot tell from a mistake, the gravest first.
void check_honest(const Comparison& comparison, bool accept_jumps) {
  refuse_failure(comparison);
  refuse_other_positions(comparison);
  refuse_unproven(comparison);
  refuse_garbage(comparison);
  if (accept_jumps) return;
  refuse_jump(comparison);
  refuse_outlier(comparison);
}

// The floors of the reference's checkpoints.
class Collector {
 public:
  void add(const Comparison& comparison, size_t run) {
    for (const RecordResult& result : comparison.results) {
      const auto checkpoint = static_cast<size_t>(result.checkpoint);
      // Ids are equal, or a flip, which is refused.
      if (holds_ids(comparison.checkpoints[checkpoint])) continue;
      const std::string& name = comparison.checkpoints[checkpoint].name;
      MeasuredFloor& floor = floors_[name];
      const double rel_l2 = result.metrics.rel_l2;
      tokens_.insert(result.token_idx);
      if (floor.records == 0) places_.emplace_back(comparison.order[checkpoint], name);
      if (floor.records++ == 0 || rel_l2 > floor.rel_l2) {
        floor.checkpoint = name;
        floor.rel_l2 = rel_l2;
        floor.token_idx = result.token_idx;
        floor.run = run;
      }
    }
  }

  int64_t tokens() const { return std::ssize(tokens_); }

  // As the network computes. What only a later run has may stand elsewhere: its places count more.
  std::vector<MeasuredFloor> floors() {
    std::ranges::sort(places_);
    std::vector<MeasuredFloor> floors;
    for (const auto& [place, name] : places_) floors.push_back(floors_.at(name));
    return floors;
  }

 private:
  std::map<std::string, MeasuredFloor> floors_;
  std::vector<std::pair<int64_t, std::string>> places_;
  std::set<int64_t> tokens_;
};

FloorRun run_of(const Comparison& comparison) {
  const RunPair pair = pair_of(comparison, 0, 1);
  return {comparison.got_path,     comparison.compared, comparison.argmax_agree,
          comparison.argmax_total, pair.median_rel_l2,  pair.worst_rel_l2};
}

void check_floors(const MeasuredFloors& measured, const std::vector<std::string>& paths) {
  bool any = false;
  for (const MeasuredFloor& floor : measured.floors) {
    any = any || floor.rel_l2 > 0;
    if (measured.k * floor.rel_l2 < kRelL2Bound) continue;  // false for NaN
    throw Error(fmt::format("'{}' at token {} is {:.3g} off {}: {:.3g} times that lets anything "
                            "pass, as zeros are off by 1",
                            printable(floor.checkpoint, 80), floor.token_idx, floor.rel_l2,
                            paths[0], measured.k),
                paths[floor.run], "give runs that compute the same, or a smaller --k");
  }
  if (!any) {
    throw Error(fmt::format("equals {} bit for bit: there is no noise to measure", paths[0]),
                paths[1],
                "give a run of another engine or arithmetic; if the bits must be equal, the policy "
                "is {\"default\": {\"rel_l2\": 0}}");
  }
}

// A policy that lets errors pass which are large beside the values; empty where it does not.
std::string wide_floors(const MeasuredFloors& measured) {
  const auto allowed = [&](const MeasuredFloor& floor) { return measured.k * floor.rel_l2; };
  const auto widest = std::ranges::max_element(measured.floors, {}, allowed);
  if (widest == measured.floors.end() || !(allowed(*widest) > kLargeRelL2)) return {};
  return fmt::format(
      "{} times the floor of '{}' is {:.3g}, an error that is large beside the values: zeros are "
      "off by 1, and smaller mistakes pass by this policy; give runs that are nearer to each other",
      measured.k, printable(widest->checkpoint, 80), allowed(*widest));
}

}  // namespace

MeasuredFloors measure_floors(const std::vector<std::string>& paths, const FloorOptions& options) {
  refuse_same_files(paths);
  CompareOptions compare = options.compare;
  compare.policy = Policy([](const std::string&) { return widest(); });
  compare.whole_required = true;
  MeasuredFloors measured;
  measured.k = options.k;
  Collector collector;
  for (size_t run = 1; run < paths.size(); ++run) {
    const Comparison comparison = compare_logs(paths[0], paths[run], compare);
    check_honest(comparison, options.accept_jumps);
    collector.add(comparison, run);
    measured.runs.push_back(run_of(comparison));
    for (const std::string& warning : comparison.warnings) {
      if (std::ranges::find(measured.warnings, warning) != measured.warnings.end()) continue;
      measured.warnings.push_back(warning);
    }
  }
  measured.floors = collector.floors();
  measured.tokens = collector.tokens();
  check_floors(measured, paths);
  if (std::string wide = wide_floors(measured); !wide.empty()) {
    measured.warnings.push_back(std::move(wide));
  }
  return measured;
}

}  // namespace assay
