#include "assay/compare/expert_flips.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "assay/compare/difference_bounds.h"
#include "assay/compare/evidence.h"
#include "assay/compare/expert_choice.h"
#include "assay/compare/expert_order.h"
#include "assay/compare/index_scores.h"
#include "assay/compare/pair_comparison.h"
#include "assay/compare/verdict.h"
#include "assay/log/sketch.h"
#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr int kNoLayer = std::numeric_limits<int>::max();

constexpr std::string_view kNoRouter =
    "the router's logits, which would show a near tie, are not compared there";

constexpr std::string_view kNoScores =
    "the indexer's queries, weights and keys, which would show a near tie, are not all logged";

bool reads_experts(Checkpoint checkpoint) {
  return checkpoint > Checkpoint::kExperts && !is_of_shared_expert(checkpoint);
}

bool reads_other_tokens(Checkpoint checkpoint) {
  return checkpoint >= Checkpoint::kAttn;
}

// How much of a result counts where there are two of the same records.
int gravity(const RecordResult& result) {
  if (result.failed()) return 3;
  if (result.evidence != Evidence::kUnproven) return 1;
  return result.metrics.facts.any() ? 2 : 0;
}

// Two records with a part for each expert, compared by the ids of these.
RecordResult compare_parts(const Record& ref, const Record& got, const ExpertSlots& slots,
                           const Tolerance& tolerance, const CompareOptions& options) {
  RecordResult worst;
  worst.status = Verdict::kIncomplete;
  for (const RecordsInOneOrder& one : in_one_order(ref, got, slots)) {
    RecordResult result = compare_pair(one.ref, one.got, tolerance, options).result;
    if (gravity(result) > gravity(worst)) worst = std::move(result);
  }
  if (gravity(worst) == 0) worst.reason = kOtherOrder;
  if (worst.failed() || !ref.sketch || !got.sketch) return worst;
  // In another order sketches tell but whether the norms are about the same.
  const double a = sketch_norm(*ref.sketch);
  const double b = sketch_norm(*got.sketch);
  const bool near = (b >= kMinNormRatio * a && b <= kMaxNormRatio * a) ||
                    (a >= kMinNormRatio * b && a <= kMaxNormRatio * b);
  if (!near) fail_record(Metric::kRelL2, std::abs(a - b) / a, worst.tolerance, worst);
  return worst;
}

class Judge {
 public:
  Judge(const MeasureRequest& request, Comparison& comparison)
      : request_(request), comparison_(comparison) {
    std::vector<RecordResult>& results = comparison_.results;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].of_ref) places_[{results[i].checkpoint, results[i].token_idx}] = i;
    }
    for (size_t i = 0; i < comparison_.checkpoints.size(); ++i) {
      const CheckpointName& name = comparison_.checkpoints[i];
      last_layer_ = std::max(last_layer_, name.layer);
      const auto checkpoint = find_checkpoint(name.op, name.layer >= 0);
      for (const Checkpoint from : {Checkpoint::kAttn, Checkpoint::kExperts}) {
        if (name.layer < 0 || !checkpoint || *checkpoint < from) continue;
        const auto [first, added] = first_of_.try_emplace({name.layer, from}, comparison_.order[i]);
        if (!added) first->second = std::min(first->second, comparison_.order[i]);
      }
    }
  }

  void judge() {
    int64_t token = std::numeric_limits<int64_t>::min();
    for (RecordResult& result : comparison_.results) {
      if (!result.of_ref) continue;
      if (result.token_idx != token) {
        before_ = std::min(before_, here_);
        here_ = kNoLayer;
        from_ = Checkpoint::kExperts;
        token = result.token_idx;
      }
      if (is_choice(result)) {
        judge_choice(result);
      } else if (is_positions(name_of(result)) && result.failing_metric == Metric::kRelL2) {
        judge_positions(result);
      } else if (is_excusable(result) && is_affected(result)) {
        excuse(result);
      }
    }
  }

 private:
  struct Pair {
    Record ref;
    Record got;
  };

  const CheckpointName& name_of(const RecordResult& result) const {
    return comparison_.checkpoints[static_cast<size_t>(result.checkpoint)];
  }

  // Whether the ids of experts differ.
  bool is_choice(const RecordResult& result) const {
    return is_experts(name_of(result)) && result.failing_metric == Metric::kRelL2;
  }

  static bool is_excusable(const RecordResult& result) {
    static constexpr Metric kDistances[] = {Metric::kRelL2, Metric::kMaxAbs, Metric::kKl,
                                            Metric::kArgmax};
    return result.failed() && !result.contradicts_itself &&
           std::ranges::find(kDistances, result.failing_metric) != std::end(kDistances);
  }

  // Whether another choice of experts, met so far, reaches that record.
  bool is_affected(const RecordResult& result) const {
    const CheckpointName& name = name_of(result);
    if (name.layer < 0) {
      const bool reached = here_ != kNoLayer || before_ < last_layer_;
      return reached && comes_after(result, std::min(here_, before_), from_);
    }
    if (name.layer > here_ || name.layer - 1 > before_) return true;
    const auto checkpoint = find_checkpoint(name.op, true);
    if (name.layer == here_) {
      if (from_ == Checkpoint::kAttn && checkpoint) return reads_other_tokens(*checkpoint);
      return checkpoint ? reads_experts(*checkpoint) : comes_after(result, here_, from_);
    }
    if (before_ == kNoLayer || name.layer - 1 != before_) return false;
    return checkpoint ? reads_other_tokens(*checkpoint)
                      : comes_after(result, name.layer, Checkpoint::kAttn);
  }

  // Of names that Assay does not know the order of the logs tells.
  bool comes_after(const RecordResult& result, int layer, Checkpoint checkpoint) const {
    const auto first = first_of_.find({layer, checkpoint});
    return first != first_of_.end() &&
           comparison_.order[static_cast<size_t>(result.checkpoint)] > first->second;
  }

  RecordResult* find(int layer, Checkpoint op, int64_t token_idx) {
    const int32_t id = request_.names.checkpoints.find(checkpoint_name(op, layer));
    const auto place = places_.find({id, token_idx});
    return place == places_.end() ? nullptr : &comparison_.results[place->second];
  }

  // The two records of a result, read anew.
  Pair load(const RecordResult& result) const {
    const std::string& name = name_of(result).name;
    const auto of = [&](const LogIndex& log, int64_t token_idx) {
      const int64_t place = log.find(log.names().find(name), token_idx);
      IndexLoader loader = log.loader();
      return Record(log.load(log.entries()[static_cast<size_t>(place)], loader));
    };
    return {of(request_.ref, result.token_idx),
            of(request_.got, result.token_idx + request_.offset)};
  }

  void judge_choice(RecordResult& result) {
    const int layer = name_of(result).layer;
    const Pair experts = load(result);
    const RecordResult* router = find(layer, Checkpoint::kRouter, result.token_idx);
    const bool affected = is_affected(result);
    const bool router_after_flip = router != nullptr && router->reason == kAfterFlip;
    // After a flip only the log's own router says what it had to choose.
    const bool is_founded = !affected || !router_after_flip || follows_own_router(result, *router);
    if (is_founded && judge_same_experts(experts, result)) return;
    if (is_founded && affected && is_excusable(result) &&
        (router == nullptr || router_after_flip)) {
      return excuse(result);
    }
    const bool shown = router != nullptr && (router->evidence == Evidence::kWhole ||
                                             router->evidence == Evidence::kPartial);
    result.failing_metric = Metric::kMargin;
    if (!shown) return fail(kNoRouter, result);
    const Pair routers = load(*router);
    const FlipJudgement flip = judge_flip({experts.ref, routers.ref}, {experts.got, routers.got},
                                          tolerance_of(*router), router->metrics);
    result.failing_value = flip.margin;
    result.failing_tolerance = flip.error;
    if (!flip.level || result.contradicts_itself) return fail(flip.reason, result);
    pass(flip, router->evidence, result);
    if (!flip.same_experts && !request_.options.strict_argmax) {
      note_flip(layer, Checkpoint::kExperts);
    }
  }

  // From which of the layer's checkpoints on another choice is read.
  void note_flip(int layer, Checkpoint from) {
    if (layer >= here_) return;
    here_ = layer;
    from_ = from;
  }

  // Of the positions that attention sees.
  void judge_positions(RecordResult& result) {
    const int layer = name_of(result).layer;
    const auto ref = index_scores(request_.ref, layer, result.token_idx);
    const auto got =
        request_.offset == 0 ? index_scores(request_.got, layer, result.token_idx) : std::nullopt;
    if (is_affected(result) && is_excusable(result)) return excuse(result);
    result.failing_metric = Metric::kMargin;
    const RecordResult* queries = find(layer, Checkpoint::kIndexQRope, result.token_idx);
    if (!ref || !got || queries == nullptr) return fail(kNoScores, result);
    const Pair chosen = load(result);
    const Tolerance& tolerance = tolerance_of(*queries);
    const Pair scores = {record_of(*ref), record_of(*got)};
    const Metrics metrics =
        compare_pair(scores.ref, scores.got, tolerance, request_.options).result.metrics;
    const FlipJudgement flip = judge_flip({seen_of(chosen.ref), scores.ref},
                                          {seen_of(chosen.got), scores.got}, tolerance, metrics);
    result.failing_value = flip.margin;
    result.failing_tolerance = flip.error;
    if (!flip.level || result.contradicts_itself) return fail(flip.reason, result);
    pass(flip, queries->evidence, result);
    if (!request_.options.strict_argmax) note_flip(layer, Checkpoint::kAttn);
  }

  static Record record_of(std::vector<float> values) {
    Record record;
    record.n = std::ssize(values);
    record.shape = {record.n};
    record.values = std::move(values);
    return record;
  }

  // The positions, without the places of a token that sees fewer.
  static Record seen_of(const Record& chosen) {
    if (!chosen.has_all_values()) return chosen;
    std::vector<float> seen = chosen.values;
    std::erase(seen, -1.0F);
    return record_of(std::move(seen));
  }

  bool follows_own_router(const RecordResult& result, const RecordResult& router) const {
    const Pair experts = load(result);
    const Pair routers = load(router);
    return !follows_router({experts.ref, routers.ref}) ||
           follows_router({experts.got, routers.got});
  }

  static void fail(std::string_view reason, RecordResult& result) {
    result.reason = reason;
    if (!reason.empty()) {
      result.failing_value = result.failing_tolerance = std::numeric_limits<double>::quiet_NaN();
    }
  }

  void pass(const FlipJudgement& flip, Evidence router, RecordResult& result) {
    comparison_.flips.push_back({result.checkpoint, result.token_idx, flip.ref_expert,
                                 flip.got_expert, flip.margin, flip.error, flip.same_experts});
    result.status = Verdict::kTieFlip;
    if (request_.options.strict_argmax && !flip.same_experts) {
      result.failing_tolerance = 0;
      return;
    }
    result.evidence = router;
    result.failing_metric = Metric::kNone;
    result.failing_value = 0;
  }

  // Whether both logs list the same experts: then what each has is compared by its id. Their order
  // is no matter where the weights show which expert each one belongs to.
  bool judge_same_experts(const Pair& experts, RecordResult& result) {
    const auto slots = slots_by_id(experts.ref, experts.got);
    if (!slots) return false;
    compare_by_id(*slots, result);
    const RecordResult* weights =
        find(name_of(result).layer, Checkpoint::kExpertWeights, result.token_idx);
    if (weights == nullptr || !weights->metrics.facts.all_values || result.contradicts_itself) {
      return false;
    }
    replace(compare_parts(experts.ref, experts.got, *slots, tolerance_of(result), request_.options),
            result);
    list_other_order(experts, result);
    return true;
  }

  // By the first place at which the two lists differ.
  void list_other_order(const Pair& experts, const RecordResult& choice) {
    const auto [ref, got] = std::ranges::mismatch(experts.ref.values, experts.got.values);
    constexpr double kNotLookedAt = std::numeric_limits<double>::quiet_NaN();
    comparison_.flips.push_back({choice.checkpoint, choice.token_idx, static_cast<int64_t>(*ref),
                                 static_cast<int64_t>(*got), kNotLookedAt, kNotLookedAt, true});
  }

  void compare_by_id(const ExpertSlots& slots, const RecordResult& choice) {
    for (const Checkpoint checkpoint : kByExpert) {
      RecordResult* result = find(name_of(choice).layer, checkpoint, choice.token_idx);
      if (result == nullptr || (result->failed() && !is_excusable(*result))) continue;
      if (result->reason == kReferenceUnsound) continue;
      const Pair pair = load(*result);
      replace(compare_parts(pair.ref, pair.got, slots, tolerance_of(*result), request_.options),
              *result);
    }
  }

  const Tolerance& tolerance_of(const RecordResult& result) const {
    return request_.tolerances[static_cast<size_t>(result.checkpoint)];
  }

  // With what was found of the same records.
  static void replace(RecordResult found, RecordResult& result) {
    found.checkpoint = result.checkpoint;
    found.token_idx = result.token_idx;
    found.ref_team = result.ref_team;
    found.got_team = result.got_team;
    result = std::move(found);
  }

  void excuse(RecordResult& result) const {
    result.evidence = request_.options.whole_required ? Evidence::kUnproven : Evidence::kExcused;
    result.status = Verdict::kIncomplete;
    result.reason = kAfterFlip;
    result.failing_metric = Metric::kNone;
  }

  const MeasureRequest& request_;
  Comparison& comparison_;
  std::map<std::pair<int32_t, int64_t>, size_t> places_;  // of results, by checkpoint and token
  // Of a layer, the place of the first of its checkpoints that is this one or comes after it.
  std::map<std::pair<int, Checkpoint>, int64_t> first_of_;
  int last_layer_ = -1;  // that either log names
  int here_ = kNoLayer;  // the first layer with another choice, at the token at hand
  // Which of that layer's checkpoints read it: those behind experts, or from attention on.
  Checkpoint from_ = Checkpoint::kExperts;
  int before_ = kNoLayer;  // the same at the tokens before it
};

}  // namespace

void judge_expert_flips(const MeasureRequest& request, Comparison& comparison) {
  Judge(request, comparison).judge();
}

void move_excused_by_flips(Comparison& comparison) {
  std::erase_if(comparison.results, [&](const RecordResult& result) {
    if (result.reason != kAfterFlip) return false;
    comparison.gaps.push_back({result.checkpoint, result.token_idx, result.evidence, kAfterFlip});
    return true;
  });
}

int64_t count_after_flips(const Comparison& comparison) {
  return std::ranges::count(comparison.gaps, kAfterFlip, &Gap::reason);
}

}  // namespace assay
