#include "assay/report/error_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "assay/report/text_table.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

std::string shown_title(const CheckpointName& name) {
  return printable(name.title(), 80);
}

// Of a checkpoint of that title, its place as the network computes.
std::optional<int64_t> order_of(const Comparison& comparison, const std::string& title) {
  const auto found = std::ranges::find(comparison.checkpoints, title, &CheckpointName::title);
  if (found == comparison.checkpoints.end()) return std::nullopt;
  return comparison.order[static_cast<size_t>(found - comparison.checkpoints.begin())];
}

bool is_before_first(const Comparison& comparison, const CheckpointName& name) {
  if (!comparison.first_divergence) return false;
  const auto first = order_of(comparison, comparison.first_divergence->checkpoint.title());
  const auto place = order_of(comparison, name.title());
  return first && place && *place < *first;
}

std::vector<ErrorOrigin> known_sources(const Comparison& comparison) {
  constexpr size_t kMost = 3;
  constexpr double kWorthTelling = 0.1;  // of the largest
  constexpr double kOfItsError = 0.01;   // what made less than this made none
  std::vector<ErrorOrigin> origins;
  for (size_t i = 0; i < std::min(kMost, comparison.error_sources.size()); ++i) {
    const ErrorSource& source = comparison.error_sources[i];
    if (!source.own || *source.own < kWorthTelling * *comparison.error_sources[0].own) break;
    if (!(*source.own > kOfItsError * source.rel_l2)) continue;
    origins.push_back(
        {"error made at", shown_title(source.checkpoint),
         fmt::format("{} at token {}: {} of its own, {} came in", shown_title(source.checkpoint),
                     source.token_idx, short_number(source.own), short_number(source.inherited)),
         is_before_first(comparison, source.checkpoint)});
  }
  return origins;
}

// Where the course of the layers' outputs jumps, if that is before the first divergence.
std::optional<ErrorOrigin> jump_before_first(const Comparison& comparison) {
  const auto& layers = comparison.drift.layers;
  if (!layers || !layers->jump || !comparison.first_divergence) return std::nullopt;
  const std::string& sequence = comparison.first_divergence->checkpoint.sequence;
  const auto found = std::ranges::find_if(comparison.checkpoints, [&](const CheckpointName& name) {
    return name.layer == layers->jump->at && name.op == "output" && name.sequence == sequence;
  });
  if (found == comparison.checkpoints.end() || !is_before_first(comparison, *found)) {
    return std::nullopt;
  }
  return ErrorOrigin{
      "error jumps at", shown_title(*found),
      fmt::format("{}: from {} in the layer before to {}, in the median of the tokens",
                  shown_title(*found), short_number(layers->jump->before),
                  short_number(layers->jump->after)),
      true};
}

// Those of which it is not known how much they made, as the judged log has heads.
std::optional<ErrorOrigin> partial_inputs(const Comparison& comparison) {
  const auto& sources = comparison.error_sources;
  const auto first = std::ranges::find_if(sources, &ErrorSource::inputs_are_partial);
  if (first == sources.end()) return std::nullopt;
  const auto others = std::ranges::count_if(sources, &ErrorSource::inputs_are_partial) - 1;
  return ErrorOrigin{
      "error made at", "",
      fmt::format("not known of {}{}: log the judged engine with --values all to "
                  "tell what came in",
                  shown_title(first->checkpoint),
                  others == 0 ? "" : fmt::format(" and {}", count_of(others, "other"))),
      false};
}

}  // namespace

std::vector<ErrorOrigin> error_origins(const Comparison& comparison) {
  std::vector<ErrorOrigin> origins = known_sources(comparison);
  if (std::ranges::none_of(origins, &ErrorOrigin::before_first)) {
    if (auto jump = jump_before_first(comparison)) origins.insert(origins.begin(), *jump);
  }
  if (auto unknown = partial_inputs(comparison)) origins.push_back(std::move(*unknown));
  return origins;
}

}  // namespace assay
