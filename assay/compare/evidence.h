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
inline constexpr std::string_view kMissingSequence = "the other log has no such sequence";
inline constexpr std::string_view kAfterSplit = "the two went on with other tokens";
inline constexpr std::string_view kAfterFlip = "it follows from a flip of experts that were level";

// Whether that reason is that one side, or neither, tells which element of logits it chooses.
bool lacks_argmax(std::string_view reason);

// Counts the states of all records of the reference in `comparison`, and finds the first that is
// unproven: by token, then as the network computes.
EvidenceCounts count_evidence(const Comparison& comparison);

}  // namespace assay
