#pragma once

#include <functional>
#include <span>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"

namespace assay {

// The distance (rel_l2, without garbage) of two records.
using RecordDistance = std::function<double(const Record& ref, const Record& got)>;

// How the token positions of two logs belong together, as far as that is known before any record
// is compared: an offset that was asked for; 0 by index; or what the tokens in both headers say.
// Throws Error if the headers say that the logs are of different inputs.
Alignment align_by_headers(const LogIndex& ref, const LogIndex& got, AlignMode mode,
                           int64_t offset);

// Whether the data may settle the alignment: it was not asked for, and a header is missing.
bool can_align_by_data(const LogIndex& ref, const LogIndex& got, AlignMode mode);

// Looks for the offset, got's token_idx minus ref's, under which a sample of records is nearest:
// those of up to kMaxShift (input_tokens.h) either way, those that put the first or the last
// tokens together, and those at which a record from the middle of the reference is nearest. Another
// offset than 0 is taken only if it explains the data far better: a median distance of at most 0.1,
// and a tenth of that under 0. Where the last checkpoint knows none, the embeddings are tried,
// which are the same whatever stands before.
Alignment find_alignment(const LogIndex& ref, const LogIndex& got, const RecordDistance& distance);

// Whether an offset leaves out a record of got although ref has one of the same token_idx: as the
// two count, these belong together. What is left out lies before or after all that ref has of that
// checkpoint. A log that only counts from another number leaves out nothing there, nor where
// `results`, under the offset, prove other records of ref at the token: then ref has the token, and
// only not that checkpoint.
bool leaves_out_shared_positions(const LogIndex& ref, const LogIndex& got, int64_t offset,
                                 std::span<const RecordResult> results);

}  // namespace assay
