#pragma once

#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

// Frequency bases that published models have.
std::vector<double> usual_bases(const Network& network);

// A rotation with another base where Llama 3.1's factors of the frequencies follow it, as in an
// engine that computes these itself.
Mistake llama3_base_mistake();

}  // namespace assay::mistakes
