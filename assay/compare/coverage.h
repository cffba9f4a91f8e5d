// What two logs do not share, in sentences; each is empty where there is nothing to tell.
#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"
#include "assay/compare/selection.h"

namespace assay {

// The map to give where one log has names of another engine that the other does not have.
std::string fitting_map(const LogIndex& ref, const LogIndex& got);

// Each log has checkpoints, of those selected, that the other does not have: they were not
// compared.
std::string other_names(const LogIndex& ref, const LogIndex& got, const Selection& selection);

// The headers name different model files.
std::string other_model(const LogIndex& ref, const LogIndex& got);

// Checkpoints of the reference that `got` does not have, though a log with what it has would, or
// though they were asked for.
std::string missing_checkpoints(const LogIndex& ref, const LogIndex& got,
                                const Selection& selection);

// Tokens of the reference of which nothing was compared, as of a run that ended early: without
// those after `comparison.split`, and those that its offset leaves out where that `shift_is_told`.
std::string missing_tokens(const Comparison& comparison, const LogIndex& ref, const LogIndex& got,
                           const Selection& selection, bool shift_is_told);

// Records that `got` lacks of checkpoints and at tokens of which it has others.
std::string missing_records(const Comparison& comparison, const LogIndex& ref, const LogIndex& got,
                            const Selection& selection);

}  // namespace assay
