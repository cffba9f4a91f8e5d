#pragma once

// Each kind of damage: changes the scene, or says how to change its logs (damage.h).

#include "tests/compare/proof/damage.h"

namespace assay::proof {

// Of tensors (tensor_damage.cc).
bool missing_record(Patient& patient);
bool missing_checkpoint(Patient& patient);
bool missing_logits(Patient& patient);
bool missing_last_layer(Patient& patient);
bool missing_token(Patient& patient);
bool missing_first_token(Patient& patient);
bool missing_last_tokens(Patient& patient);
bool one_record_left(Patient& patient);
bool missing_layers_of_decode(Patient& patient);
bool torn_last_line(Patient& patient);
bool misspelt_checkpoint(Patient& patient);
bool scaled(Patient& patient);
bool negated(Patient& patient);
bool zeroed(Patient& patient);
bool absolute(Patient& patient);
bool biased(Patient& patient);
bool coarse(Patient& patient);
bool noisy(Patient& patient);
bool permuted(Patient& patient);
bool shifted_by_one(Patient& patient);
bool halves_swapped(Patient& patient);
bool tail_zeroed(Patient& patient);
bool tail_of_another(Patient& patient);
bool large_beyond_head(Patient& patient);
bool huge_beyond_head(Patient& patient);
bool nonfinite_values(Patient& patient);
bool all_nan(Patient& patient);
bool nan_beyond_head(Patient& patient);
bool argmax_swapped(Patient& patient);
bool other_model(Patient& patient);
bool stale_rows(Patient& patient);
bool rows_ahead(Patient& patient);
bool frozen_rows(Patient& patient);
bool rows_swapped(Patient& patient);
bool stale_behind_garbage(Patient& patient);
bool layers_swapped(Patient& patient);
bool went_on_otherwise(Patient& patient);
bool prompt_ended_early(Patient& patient);

// Of the lines and headers of logs (log_damage.cc).
bool wrong_size(Patient& patient);
bool wrong_n(Patient& patient);
bool head_as_whole(Patient& patient);
bool value_too_many(Patient& patient);
bool forged_summary(Patient& patient);
bool absurd_number(Patient& patient);
bool summary_of_another(Patient& patient);
bool forged_sketch(Patient& patient);
bool summary_against_own_line(Patient& patient);
bool forged_values(Patient& patient);
bool reference_forged(Patient& patient);
bool conflicting_copy(Patient& patient);
bool other_tokens(Patient& patient);
bool wrong_under_heap_words(Patient& patient);
bool head_of_heap_words(Patient& patient);
bool wrong_behind_reference_garbage(Patient& patient);
bool nan_in_own_checkpoint(Patient& patient);
bool nan_in_own_token(Patient& patient);
bool nan_after_split(Patient& patient);
bool nan_before_offset(Patient& patient);
bool shifted_behind_garbage(Patient& patient);
bool nothing_in_common(Patient& patient);
bool zero_head_against_summary(Patient& patient);
bool prompt_cut(Patient& patient);
bool split_into_another_token(Patient& patient);

// Of logits and log-probabilities (logits_damage.cc).
bool wrong_beside_mask(Patient& patient);
bool wrong_beside_garbage_of_both(Patient& patient);
bool infinity_beyond_reference_head(Patient& patient);
bool nothing_but_infinities(Patient& patient);
bool logits_restated_wrong(Patient& patient);
bool logprobs_off(Patient& patient);
bool logprobs_nan(Patient& patient);
bool logprobs_impossible(Patient& patient);
bool logprobs_of_other_tokens(Patient& patient);

}  // namespace assay::proof
