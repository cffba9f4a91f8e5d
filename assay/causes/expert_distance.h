#pragma once

#include <span>

#include "assay/mistakes/network.h"

namespace assay::causes {

// How far the logits of a router are from choosing these experts, as a share of their norm: 0 where
// they do, in whatever order, infinity where nothing lets them. Doubles until it is enough.
double expert_distance(const mistakes::Network& network, mistakes::Op op,
                       std::span<const float> router, std::span<const float> ids);

// Whether the choice of `ids` by these logits may be another where they are off by `error` of their
// norm.
bool are_experts_level(const mistakes::Network& network, mistakes::Op op,
                       std::span<const float> router, std::span<const float> ids, double error);

}  // namespace assay::causes
