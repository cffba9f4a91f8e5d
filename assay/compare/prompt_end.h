#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/log_index.h"

namespace assay {

// Where a prompt ends is what the reference's header says. If one header goes on and names a token
// that the logits of the other log, which generated it, do not choose, the two evaluated other
// tokens as far as they say: from there on, parts that agree prove nothing of the input, and become
// unproven; what was compared whole does. Returns a warning; empty if there is no such token, or
// the other log's tokens were sampled.
std::string hold_prompt_end(const LogIndex& ref, const LogIndex& got, Comparison& comparison);

}  // namespace assay
