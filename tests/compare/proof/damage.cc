#include "tests/compare/proof/damage.h"

#include <algorithm>

#include "tests/compare/proof/damage_kinds.h"
#include "tests/compare/proof/damage_parts.h"

namespace assay::proof {
namespace {

constexpr Damage kDamages[] = {
    {"missing_record", missing_record},
    {"missing_checkpoint", missing_checkpoint},
    {"missing_logits", missing_logits},
    {"missing_last_layer", missing_last_layer},
    {"missing_token", missing_token},
    {"missing_first_token", missing_first_token},
    {"missing_last_tokens", missing_last_tokens},
    {"missing_layers_of_decode", missing_layers_of_decode},
    {"one_record_left", one_record_left},
    {"torn_last_line", torn_last_line},
    {"misspelt_checkpoint", misspelt_checkpoint},
    {"scaled", scaled},
    {"negated", negated},
    {"zeroed", zeroed},
    {"absolute", absolute},
    {"biased", biased},
    {"coarse", coarse},
    {"noisy", noisy},
    {"permuted", permuted},
    {"shifted_by_one", shifted_by_one},
    {"halves_swapped", halves_swapped},
    {"tail_zeroed", tail_zeroed},
    {"tail_of_another", tail_of_another},
    {"large_beyond_head", large_beyond_head},
    {"huge_beyond_head", huge_beyond_head},
    {"nonfinite_values", nonfinite_values},
    {"all_nan", all_nan},
    {"nan_beyond_head", nan_beyond_head},
    {"argmax_swapped", argmax_swapped},
    {"other_model", other_model},
    {"stale_rows", stale_rows},
    {"rows_ahead", rows_ahead},
    {"frozen_rows", frozen_rows},
    {"rows_swapped", rows_swapped},
    {"stale_behind_garbage", stale_behind_garbage},
    {"layers_swapped", layers_swapped},
    {"went_on_otherwise", went_on_otherwise},
    {"prompt_ended_early", prompt_ended_early},
    {"wrong_size", wrong_size},
    {"wrong_n", wrong_n},
    {"head_as_whole", head_as_whole},
    {"value_too_many", value_too_many},
    {"forged_summary", forged_summary},
    {"absurd_number", absurd_number},
    {"summary_of_another", summary_of_another},
    {"forged_sketch", forged_sketch},
    {"summary_against_own_line", summary_against_own_line},
    {"forged_values", forged_values},
    {"reference_forged", reference_forged},
    {"conflicting_copy", conflicting_copy},
    {"other_tokens", other_tokens},
    {"wrong_under_heap_words", wrong_under_heap_words},
    {"head_of_heap_words", head_of_heap_words},
    {"wrong_behind_reference_garbage", wrong_behind_reference_garbage},
    {"nan_in_own_checkpoint", nan_in_own_checkpoint},
    {"logits_restated_wrong", logits_restated_wrong},
    {"nan_in_own_token", nan_in_own_token},
    {"nan_after_split", nan_after_split},
    {"nan_before_offset", nan_before_offset},
    {"shifted_behind_garbage", shifted_behind_garbage},
    {"nothing_in_common", nothing_in_common},
    {"zero_head_against_summary", zero_head_against_summary},
    {"logprobs_off", logprobs_off},
    {"logprobs_nan", logprobs_nan},
    {"logprobs_impossible", logprobs_impossible},
    {"logprobs_of_other_tokens", logprobs_of_other_tokens},
    {"wrong_beside_mask", wrong_beside_mask},
    {"wrong_beside_garbage_of_both", wrong_beside_garbage_of_both},
    {"infinity_beyond_reference_head", infinity_beyond_reference_head},
    {"nothing_but_infinities", nothing_but_infinities},
    {"prompt_cut", prompt_cut},
    {"split_into_another_token", split_into_another_token},
};

}  // namespace

std::span<const Damage> all_damages() {
  return kDamages;
}

Outcome outcome_of(const Scene& scene) {
  Outcome outcome = Outcome::kPass;
  for (const Tensor& ref : scene.ref.tensors) {
    if (!is_held(scene, ref)) continue;
    const Tensor* got = scene.got.find(ref.checkpoint, ref.token);
    if (got == nullptr || !scene.got_form.logs(*got)) {
      outcome = std::max(outcome, Outcome::kNotPass);
      continue;
    }
    const Sight sight = compare_sight(scene.network, ref, scene.ref_form.of(ref.checkpoint), *got,
                                      scene.got_form.of(ref.checkpoint));
    if (sight.wrong) outcome = std::max(outcome, Outcome::kNotPass);
    if (sight.whole) outcome = Outcome::kDiverge;
  }
  for (const Tensor& got : scene.got.tensors) {
    const Tensor* ref = scene.ref.find(got.checkpoint, got.token);
    const bool own = ref == nullptr || !is_held(scene, *ref);
    const RecordForm& form = scene.got_form.of(got.checkpoint);
    if (own && scene.got_form.logs(got) && shows_nonfinite(scene.network, got, form)) {
      outcome = Outcome::kDiverge;
    }
  }
  return outcome;
}

}  // namespace assay::proof
