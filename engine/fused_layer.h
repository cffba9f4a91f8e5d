#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/op.h"

namespace assay {

// What fused kernels (kernels/fused.h) compute in one go.
enum class FusedKind : uint8_t {
  kQkv,         // a norm, the products q, k and v of it, and their rotations
  kAttention,   // attention
  kResidual,    // a product, added to the residual stream
  kActivation,  // a norm, the products up and gate of it, and the activation
};

struct FusedGroup {
  FusedKind kind = FusedKind::kQkv;
  std::span<const OpSpec> ops;  // neighbours

  // The group's op that computes a checkpoint; null if it has none.
  const OpSpec* find(Checkpoint checkpoint) const { return find_spec(ops, checkpoint); }
};

// A layer in groups; nothing where an op belongs to none, or reads something else than in
// common_layer().
std::optional<std::vector<FusedGroup>> fuse_layer(std::span<const OpSpec> layer);

}  // namespace assay
