#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "assay/compare/log_index.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// A record of a log, held to what the model gives for the inputs that the same log holds.
struct OwnOutput {
  int64_t entry = 0;     // in LogIndex::entries()
  int64_t position = 0;  // of its token, from 0
  // Why it could not be held; empty where it was.
  std::string_view not_held = {};
  // The distance of the logged values from the computed ones, relative to the norm of these; of ids
  // of experts, by how much of its norm the router would have to be off for them to be chosen. NaN
  // where either is not finite, or of another size: then `reason` says so.
  double error = 0;
  std::string_view reason = {};
  // An embedding of a token that the logits before it do not choose: nothing but the model's rows
  // shows that it was to be this one.
  bool is_unchosen = false;
};

struct OwnOutputRequest {
  int64_t first = 0;  // the token_idx of position 0
  double limit = 0;   // experts that are level within it are not chosen for the log
  int n_threads = 0;  // 0: one per processor
  std::function<void(int64_t done, int64_t total)> progress = {};
};

// Of every record of the log. Each op is computed from its inputs as they are logged, with all
// values; where one is not, from what it is itself computed from, and so on back to the tokens of
// the header. A record whose inputs do not follow so is not held, nor is one of which a part of its
// values is logged. Memory grows with the positions times what one layer keeps of each (queries,
// keys, values, the stream).
std::vector<OwnOutput> own_outputs(const mistakes::Network& network, const LogIndex& log,
                                   const OwnOutputRequest& request);

}  // namespace assay::causes
