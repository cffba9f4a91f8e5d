#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// What was compared of one checkpoint, over all tokens, and what is missing of it.
struct CheckpointGroup {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int64_t records = 0;     // compared
  // Of those compared, the furthest off; one that fails before one that passes. Null where all are
  // missing.
  const RecordResult* worst = nullptr;
  std::vector<const RecordResult*> failures;  // by token
  int64_t zeros = 0;                          // records that hold nothing but zeros on both sides
  int64_t unproven = 0;                       // records of the reference, compared or missing
  int64_t after_split = 0;                    // of these, from where the two logs part
  int64_t excused = 0;
  int64_t first_unproven = 0;  // its token
  std::string_view reason;     // why that is unproven
};

// One for each checkpoint, in the order in which the network computes. They point into
// `comparison`.
std::vector<CheckpointGroup> group_by_checkpoint(const Comparison& comparison);

inline constexpr std::string_view kAllZeros = "all zeros on both sides, which proves nothing";

// Whether nothing but zeros was compared of it, and nothing else of any checkpoint.
bool is_inconclusive(const Comparison& comparison, const CheckpointGroup& group);

// "missing in the other log at 3 tokens, the first 7".
std::string unproven_tokens(const CheckpointGroup& group);

// "3 of 13 tokens fail".
std::string failing_tokens(const CheckpointGroup& group);

// Those with failures, in the order in which they first fail: the first divergence is the first.
std::vector<CheckpointGroup> failing_groups(const Comparison& comparison);

inline const CheckpointName& name_of(const Comparison& comparison, int32_t checkpoint) {
  return comparison.checkpoints[static_cast<size_t>(checkpoint)];
}

}  // namespace assay
