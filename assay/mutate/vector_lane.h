#pragma once

#include <string>

#include "assay/mutate/fault.h"
#include "assay/mutate/golden_lane.h"
#include "kernels/kernels.h"

namespace assay {

// Goldens of parts that no model is needed for, under tests/data/: blocks of every quantised type
// with what the `gguf` Python package reads from them, and choices of a sampler that was written
// for it in Python. No tolerance: all bits and all choices must be equal.

// Whether these goldens say anything of a fault: one in how blocks are read, or in the sampling.
bool has_vectors(const Fault& fault);

// `fault` may be null: then every type and all choices are tried on a sound engine. Throws Error
// if a file under `folder` cannot be read.
LaneResult run_vector_lane(const std::string& folder, const Fault* fault, Kernels& kernels);

}  // namespace assay
