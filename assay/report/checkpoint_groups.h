#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// What was compared of one checkpoint, over all tokens.
struct CheckpointGroup {
  int32_t checkpoint = 0;  // in Comparison::checkpoints
  int64_t records = 0;
  const RecordResult* worst = nullptr;        // furthest off; one that fails before one that passes
  std::vector<const RecordResult*> failures;  // by token
  int64_t inconclusive = 0;                   // of the records
  // The first record that keeps a checkpoint without failures from being in parity: where each
  // proves nothing, and of logits, each of which chooses a token, one that could not be judged.
  const RecordResult* unproved = nullptr;
};

// One for each checkpoint, in the order in which the network computes. They point into
// `comparison`.
std::vector<CheckpointGroup> group_by_checkpoint(const Comparison& comparison);

// "3 of 13 tokens fail".
std::string failing_tokens(const CheckpointGroup& group);

// Those with failures, in the order in which they first fail: the first divergence is the first.
std::vector<CheckpointGroup> failing_groups(const Comparison& comparison);

inline const CheckpointName& name_of(const Comparison& comparison, int32_t checkpoint) {
  return comparison.checkpoints[static_cast<size_t>(checkpoint)];
}

}  // namespace assay
