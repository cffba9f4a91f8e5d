#pragma once

#include <string>
#include <string_view>

#include "assay/compare/comparison.h"

namespace assay {

// Why a record failed, as in "rel_l2 0.0251 is over 0.01".
std::string failure_text(const RecordResult& result);

// The names of a sequence in the two logs: "3 (req-17 in the other log)".
std::string sequence_title(const Comparison& sequence);

// The same of the first divergence, which there must be: "layer_3_q at token 7: rel_l2 0.0251 is
// over 0.01".
std::string first_failure_text(const Comparison& comparison);
// The same without the place.
std::string first_failure_reason(const Comparison& comparison);

// Why a record is unproven, or proves nothing: "all zeros on both sides".
std::string_view unproven_text(const RecordResult& result);

// The flips of experts that were level, and what they excuse: "layer_3_experts at token 7 has
// expert 12 in place of 5, ..."; empty where there are none.
std::string flips_text(const Comparison& comparison);

// The command that compares what flips of experts excuse.
std::string replay_command(const Comparison& comparison);

// Where to log a run that follows another's tokens: beside the log at `path`, which it must not
// take the place of.
std::string followed_path(std::string_view path);

// How many records of the reference were shown, and how: "132 of 132 records whole, argmax 33 of
// 33".
std::string evidence_text(const Comparison& comparison);

// Where to look for the cause, where none is named; may be empty.
std::string cause_hint(const Comparison& comparison);

// The mistakes that the search for the cause left out, and what to do; empty where it tried all.
std::string causes_not_tried(const Comparison& comparison);

// The smallest tolerance that every record would pass, rounded up to three digits so that the
// number as it is printed passes: "rel_l2 0.0302", or "3.5 x the floor" where the policy has
// floors. Empty where something else than rel_l2 fails, or where it would let everything pass.
std::string passing_tolerance(const Comparison& comparison);

// What the verdict means here, as a part of a sentence.
std::string verdict_meaning(const Comparison& comparison);

// "IN PARITY", "DIVERGED", "INCOMPLETE" or "INCONCLUSIVE".
std::string_view outcome_name(const Comparison& comparison);

}  // namespace assay
