#pragma once

#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// The comparisons of several sequences as one: the records of all, counts added, the worst verdict;
// it passes if each does. Checkpoints are listed for each sequence, whose name they carry.
// Alignment, split, drift and the logs are those of the sequence with the first divergence, or the
// first one.
Comparison merge_sequences(std::vector<Comparison> sequences);

}  // namespace assay
