#pragma once

#include <string_view>

#include "assay/compare/comparison.h"
#include "assay/compare/policy.h"

namespace assay {

// What a record must show to count as proven.
struct EvidenceRequired {
  bool whole = false;   // no part of it is enough
  bool argmax = false;  // of logits, both sides must tell which element they choose
};

// What shows a record that did not fail, from the facts that both sides state or one lets us
// compute (Metrics::facts) and the limits that could be held to them. Sets the reason where it is
// unproven.
Evidence evidence_of(const Metrics& metrics, const Tolerance& tolerance, EvidenceRequired required,
                     std::string_view& reason);

// Why a record is excused or unproven.
inline constexpr std::string_view kMissing = "it is missing in the other log";
inline constexpr std::string_view kAllowedMissing = "accepted by --allow-missing";
inline constexpr std::string_view kDifferentPromptStart = "the prompts of the two begin otherwise";
inline constexpr std::string_view kReferenceUnsound = "the reference contradicts itself there";
inline constexpr std::string_view kReplicasDiffer =
    "ranks of the reference that should hold the same do not";
inline constexpr std::string_view kLacksReplica =
    "a rank that should hold the same has no values, summary or sketch of it";
inline constexpr std::string_view kSilentPart =
    "the part of a rank has no values, summary or sketch";
inline constexpr std::string_view kMissingSequence = "the other log has no such sequence";
inline constexpr std::string_view kAfterSplit = "the two went on with other tokens";
inline constexpr std::string_view kLacking =
    "the model computes it, and the log, which is to have it by its other records, by its header "
    "or by --checkpoints, lacks it";
inline constexpr std::string_view kUnchosen =
    "its token is not the one that the logits before it choose, and the header does not say that "
    "tokens are drawn";
inline constexpr std::string_view kDoubtfulOffset =
    "the values match only at an offset that leaves out records of the other log at positions that "
    "the reference has, too: an engine that is late by a token logs the same";
inline constexpr std::string_view kOffsetOfSome =
    "the values match only at an offset that other sequences of the log do not have, and an engine "
    "counts the positions of all alike";
inline constexpr std::string_view kAfterFlip =
    "it follows from a flip of experts or positions that were level";

inline constexpr std::string_view kNoFact =
    "the logs have no value, sketch or summary of it in common";
inline constexpr std::string_view kNoElements = "it has no elements";
inline constexpr std::string_view kOnlyInfinite = "the values in common are all infinite";
inline constexpr std::string_view kUnclearNonfinite =
    "some elements are not finite, and the logs do not tell whether they are the same in both";
inline constexpr std::string_view kSwampedSums =
    "its sums differ and are mostly those of padding or garbage";
inline constexpr std::string_view kUnknownRegret =
    "the two choose other tokens, and the reference does not list the other's, so that nothing "
    "shows whether these are level";
inline constexpr std::string_view kOtherOrder =
    "its experts are listed in another order, and what both log is of other ones";
inline constexpr std::string_view kOtherInput =
    "one header names another token than the other log chose before it";
inline constexpr std::string_view kNoKl =
    "the policy has a limit of kl, which takes all values of both logs";
inline constexpr std::string_view kZeroLogits =
    "its logits are all zero in both logs, which chooses nothing";
inline constexpr std::string_view kWideMaxAbs =
    "the policy's max_abs allows an error as large as all its values there; give rel_l2, or a "
    "smaller max_abs";
inline constexpr std::string_view kNoLimit =
    "no limit of the policy can be held there; give rel_l2";

inline constexpr std::string_view kFittedConstant =
    "it was compared but for a constant, as neither log has all logits, whose sum of exponentials "
    "would tell it";

// Whether that reason is that one side, or neither, tells which element of logits it chooses.
bool lacks_argmax(std::string_view reason);

// Counts the states of all records of the reference in `comparison`, and finds the first that is
// unproven: by token, then as the network computes.
EvidenceCounts count_evidence(const Comparison& comparison);

}  // namespace assay
