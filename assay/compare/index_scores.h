#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/compare/log_index.h"

namespace assay {

// The scores by which the indexer of a layer chooses the positions that a token's attention sees
// (DeepSeek-V3.2): of each position up to the token's own, the sum over heads of the head's weight
// times the product of its query with the position's key, where that is above 0. What a log scales
// all of them by is left out: it changes no choice. Nothing where the log has not all values of
// layer_N_index_q_rope, layer_N_index_weights and, of all these positions, layer_N_index_k_rope.
std::optional<std::vector<float>> index_scores(const LogIndex& log, int layer, int64_t token_idx);

}  // namespace assay
