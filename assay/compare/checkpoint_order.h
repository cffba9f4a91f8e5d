#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// A checkpoint's name taken apart, and its place in the order in which a network computes.
struct CheckpointName {
  std::string name;
  int layer = -1;  // -1 outside the layers
  std::string op;  // "q_rope" of layer_7_q_rope; the name itself outside the layers
  bool known = false;
};

CheckpointName parse_checkpoint_name(std::string_view name);

// Sorts as the network computes: embedding, the layers with their ops, final_norm, logits. Names
// that Assay does not know come after those of their layer, or last, in the order of `arrival`,
// which is when the logs first mention them.
struct ComputeOrder {
  int phase = 0;  // 0 embedding, 1 layers, 2 after them, 3 unknown
  int layer = 0;
  int op = 0;
  int64_t arrival = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the compiler's own comparison for a 0
  auto operator<=>(const ComputeOrder&) const = default;
};

ComputeOrder compute_order(const CheckpointName& name, int64_t arrival);

}  // namespace assay
