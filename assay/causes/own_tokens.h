#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/log_index.h"
#include "assay/mistakes/network.h"
#include "base/thread_pool.h"

namespace assay::causes {

// A token that a log was computed from.
struct OwnToken {
  int32_t id = -1;  // -1 where nothing tells
  // The logits before it choose another, and the header does not say that it is drawn.
  bool is_unchosen = false;
};

// A flag for each id of the vocabulary: whether an engine may choose it.
std::vector<bool> choosable_ids(const Model& model);

// The tokens that a log was computed from, at each of `positions` (from 0; ascending). Those of the
// header; after them, if all values of the embedding are logged, the one whose embedding is nearest
// to it, as the engine may have drawn any; else what the logits before choose, unless the header
// says that it is drawn. `first` is the token_idx of position 0. An embedding that is no further
// off than `limit` is taken at once.
std::vector<OwnToken> own_tokens(const mistakes::Network& network, const LogIndex& log,
                                 const std::vector<int64_t>& positions, int64_t first, double limit,
                                 ThreadPool& pool);

}  // namespace assay::causes
