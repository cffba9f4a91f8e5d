#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/log_index.h"
#include "assay/compare/selection.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// A record that a log should have.
struct LackingRecord {
  mistakes::Op op;
  int64_t position = 0;  // of its token, from 0
};

// What a log lacks of the checkpoints that it has, and of those that `demanded` names, if it names
// any: each of them in every layer of the model that computes it, at every position from the first
// token of the header (or the first that is logged, where no header names any) to the last that is
// logged. What comes after the last attention need not be there at the positions of the prompt
// before the last, if it is at none of them: no other position reads it. Of positions that no
// record has, one after the other, the first is listed. `first` is the token_idx of position 0.
std::vector<LackingRecord> lacking_records(const mistakes::Network& network, const LogIndex& log,
                                           int64_t first, const Selection& demanded);

// Whether what a log has is of the kinds of `logits` or of `layers`, and nothing else.
bool is_of_a_set(const LogIndex& log);

}  // namespace assay::causes
