#include "assay/compare/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "assay/compare/record_view.h"
#include "assay/compare/verdict.h"

namespace assay {
namespace {

constexpr std::string_view kUnknownIds = "not all ids are logged, or they are not those of experts";
constexpr std::string_view kUnknownLogits = "the reference does not tell the router's logits there";
constexpr std::string_view kOtherRule =
    "the reference's own choice does not follow from its router's logits alone";
constexpr std::string_view kOwnChoice = "the log's own router prefers other experts";

// Logits as far apart as this are level for a softmax in 32-bit floats, whose shares, and the
// exponentials that they are made of, are rounded by a few times 2^-24.
constexpr double kSoftmaxRounding = 1e-6;

constexpr size_t kMostUsed = 1024;  // no model uses as many: pairs of them are looked at

// Ids of experts, if that is what all values are.
std::optional<std::vector<int64_t>> ids_of(const ExpertChoice& choice) {
  const std::vector<float>& values = choice.experts.values;
  if (!choice.experts.has_all_values() || values.empty() || values.size() > kMostUsed) return {};
  std::vector<int64_t> ids;
  std::set<int64_t> seen;
  for (const float value : values) {
    if (!(value >= 0 && static_cast<double>(value) < static_cast<double>(choice.router.n))) {
      return {};
    }
    ids.push_back(static_cast<int64_t>(value));
    if (static_cast<float>(ids.back()) != value || !seen.insert(ids.back()).second) return {};
  }
  return ids;
}

std::optional<double> logit(const ExpertChoice& choice, int64_t id) {
  const std::optional<float> value = value_at(choice.router, id);
  return value ? std::optional<double>(*value) : std::nullopt;
}

bool are_greatest(const ExpertChoice& choice, const std::vector<int64_t>& ids) {
  const std::set<int64_t> used(ids.begin(), ids.end());
  double least_used = std::numeric_limits<double>::infinity();
  double most_of_others = -least_used;
  const auto take = [&](int64_t id, double value) {
    double& extreme = used.contains(id) ? least_used : most_of_others;
    // NaN stays, and fails the comparison below.
    if (!(used.contains(id) ? value >= extreme : value <= extreme)) extreme = value;
  };
  for (size_t i = 0; i < choice.router.values.size(); ++i) {
    take(static_cast<int64_t>(i), static_cast<double>(choice.router.values[i]));
  }
  if (choice.router.summary) {
    for (const TopValue& entry : choice.router.summary->top) {
      take(entry.index, static_cast<double>(entry.value));
    }
  }
  return most_of_others - kSoftmaxRounding <= least_used;
}

// Of `ids`, those that `others` lacks.
std::vector<int64_t> without(const std::vector<int64_t>& ids, const std::vector<int64_t>& others) {
  std::vector<int64_t> rest;
  for (const int64_t id : ids) {
    if (std::ranges::find(others, id) == others.end()) rest.push_back(id);
  }
  return rest;
}

// Two experts that the two logs rank differently: the reference has `ref` and not `got`, or before
// it.
struct Swap {
  int64_t ref;
  int64_t got;
};

std::vector<Swap> swaps_between(const std::vector<int64_t>& ref, const std::vector<int64_t>& got) {
  std::vector<Swap> swaps;
  const std::vector<int64_t> gained = without(got, ref);
  for (const int64_t lost : without(ref, got)) {
    for (const int64_t other : gained) swaps.push_back({lost, other});
  }
  if (!gained.empty()) return swaps;
  for (size_t i = 0; i < ref.size(); ++i) {
    for (size_t j = i + 1; j < ref.size(); ++j) {
      const auto first = std::ranges::find(got, ref[i]);
      if (std::find(first, got.end(), ref[j]) == got.end()) swaps.push_back({ref[i], ref[j]});
    }
  }
  return swaps;
}

}  // namespace

bool follows_router(const ExpertChoice& choice) {
  const auto ids = ids_of(choice);
  return ids && are_greatest(choice, *ids);
}

FlipJudgement judge_flip(const ExpertChoice& ref, const ExpertChoice& got,
                         const Tolerance& tolerance, const Metrics& router) {
  FlipJudgement flip;
  flip.margin = flip.error = std::numeric_limits<double>::quiet_NaN();
  const auto ref_ids = ids_of(ref);
  const auto got_ids = ids_of(got);
  if (!ref_ids || !got_ids || ref_ids->size() != got_ids->size()) {
    flip.reason = kUnknownIds;
    return flip;
  }
  flip.same_experts = without(*ref_ids, *got_ids).empty();
  const double most = most_of_one(tolerance, router);
  bool level = true;
  bool further = false;
  for (const Swap& swap : swaps_between(*ref_ids, *got_ids)) {
    const auto ref_logit = logit(ref, swap.ref);
    const auto ref_other = logit(ref, swap.got);
    if (!ref_logit || !ref_other) {
      flip.reason = kUnknownLogits;
      return flip;
    }
    const auto got_logit = logit(got, swap.ref);
    const auto got_other = logit(got, swap.got);
    const double margin = *ref_logit - *ref_other;
    const double error = got_logit && got_other
                             ? std::min(std::abs(*ref_logit - *got_logit) +
                                            std::abs(*ref_other - *got_other) + kSoftmaxRounding,
                                        most)
                             : tie_margin(tolerance, router);
    const bool is_level = std::abs(margin) <= error;
    level = level && is_level;
    // The first that is no tie, else the widest.
    if (!further && (!is_level || !(margin <= flip.margin))) {
      further = !is_level;
      flip.ref_expert = swap.ref;
      flip.got_expert = swap.got;
      flip.margin = margin;
      flip.error = error;
    }
  }
  if (!are_greatest(ref, *ref_ids)) flip.reason = kOtherRule;
  if (flip.reason.empty() && !are_greatest(got, *got_ids)) flip.reason = kOwnChoice;
  flip.level = level && flip.reason.empty();
  return flip;
}

}  // namespace assay
