#pragma once

#include <functional>
#include <optional>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "assay/compare/split.h"

namespace assay {

// Throws Error if the headers say that the two logs are of different inputs: other tokens at a
// position that both have or, where tokens are not known, another prompt.
void check_same_input(const LogIndex& ref, const LogIndex& got);

// The offset (got's token_idx minus ref's) under which the tokens that the headers name are the
// same, where they are not as they stand: one of the two has tokens before the other's first, as
// when an engine leaves BOS out. Nothing if there is none, or if too few tokens would be in common.
std::optional<int64_t> left_out_tokens(const LogIndex& ref, const LogIndex& got);

// The tokens that the headers name; `got` at positions of its own. `trusted`: whether the two are
// of the same input; if not, nothing is known.
KnownTokens known_tokens(const LogIndex& ref, const LogIndex& got, bool trusted);

// The distance (rel_l2, without garbage) of two records.
using RecordDistance = std::function<double(const Record& ref, const Record& got)>;

// Looks for the offset, got's token_idx minus ref's, under which a sample of records is nearest:
// from -16 to 16, those that put the first or the last tokens together, and those at which a record
// from the middle of the reference is nearest. Another offset than 0 is taken only if it explains
// the data far better: a median distance of at most 0.1, and a tenth of that under 0. Where the
// last checkpoint knows none, the embeddings are tried, which are the same whatever stands before.
Alignment find_alignment(const LogIndex& ref, const LogIndex& got, const RecordDistance& distance);

}  // namespace assay
