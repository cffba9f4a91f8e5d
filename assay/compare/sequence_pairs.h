#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "assay/compare/log_index.h"

namespace assay {

// The sequences of two logs that belong together, as places in them; -1 where one has no partner.
struct SequencePair {
  int64_t ref = -1;
  int64_t got = -1;
};

// Pairs sequences by the tokens that the headers name, whatever their names and order; of equal
// ones first those of the same name. Tokens that go on, leave out or add first tokens
// (input_tokens.h), or differ by padding, fit where no equal ones do; padding becomes the mask of
// its sequence. Sequences of which a header names no tokens are paired by name. A single sequence
// of each log is always a pair. A further sequence of the judged log with the tokens of one of the
// reference is paired with that, too.
std::vector<SequencePair> pair_sequences(const std::vector<std::shared_ptr<LogIndex>>& ref,
                                         const std::vector<std::shared_ptr<LogIndex>>& got);

}  // namespace assay
