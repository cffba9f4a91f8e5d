#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"

namespace assay {

// A checkpoint's name taken apart, and its place in the order in which a network computes.
struct CheckpointName {
  std::string name;
  int layer = -1;  // -1 outside the layers
  std::string op;  // "q_rope" of layer_7_q_rope; the name itself outside the layers
  bool known = false;
  std::string sequence = {};  // of a log of several: its name

  // "layer_7_q of sequence 3".
  std::string title() const { return sequence.empty() ? name : name + " of sequence " + sequence; }
};

CheckpointName parse_checkpoint_name(std::string_view name);

// Those that have a part for each of a token's experts, in the order of their ids.
inline constexpr Checkpoint kByExpert[] = {Checkpoint::kExpertWeights, Checkpoint::kExpertIn,
                                           Checkpoint::kFfnGate,       Checkpoint::kFfnUp,
                                           Checkpoint::kFfnAct,        Checkpoint::kExpertOut};

// Whether it holds the ids of a token's experts: numbers, of which 121 is not near 122.
bool is_experts(const CheckpointName& name);

// Whether it holds the positions that a token's attention sees.
bool is_positions(const CheckpointName& name);

// Whether it holds either.
bool holds_ids(const CheckpointName& name);

// Sorts as the network computes: embedding, the layers with their ops, final_norm, logits. Of a
// single name that Assay does not know nothing says where it belongs: it comes after those of its
// layer, or last, in the order of `arrival`. order_checkpoints() knows the place of such a name.
struct ComputeOrder {
  int phase = 0;  // 0 embedding, 1 layers, 2 after them, 3 unknown
  int layer = 0;
  int op = 0;
  int64_t arrival = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the compiler's own comparison for a 0
  auto operator<=>(const ComputeOrder&) const = default;
};

ComputeOrder compute_order(const CheckpointName& name, int64_t arrival);

// A checkpoint, and the one that precedes it in its log.
struct ArrivedCheckpoint {
  CheckpointName name;
  // The place, in the list that this is in, of the checkpoint of the record before this one's
  // first; -1 if there is none. Is below this one's own place.
  int32_t after = -1;
};

// The rank of each checkpoint, from 0, in the order in which the network computes. `arrived`: each
// name once, as the logs first mention them. A name that Assay does not know follows the one that
// it is logged after, in the order of arrival where there are several, and comes first where there
// is none; but one that names a layer stays within this layer.
std::vector<int32_t> order_checkpoints(const std::vector<ArrivedCheckpoint>& arrived);
// The same where each name of the list is logged after the one before it.
std::vector<int32_t> order_checkpoints(const std::vector<CheckpointName>& names);

}  // namespace assay
