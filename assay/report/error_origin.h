#pragma once

#include <string>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// A place at which the error arises, which need not be the first that is over its tolerance.
struct ErrorOrigin {
  std::string what;           // "error made at", or "error jumps at"
  std::string checkpoint;     // its title; empty where no place is known
  std::string text;           // "layer_12_output at token 8: 2.22 of its own, 2.17e-07 came in"
  bool before_first = false;  // the network computes it before the first divergence's checkpoint
};

// The checkpoints that made most of their error themselves; before them, where none of these is
// before the first divergence and the error jumps at a layer that is, this one.
std::vector<ErrorOrigin> error_origins(const Comparison& comparison);

}  // namespace assay
