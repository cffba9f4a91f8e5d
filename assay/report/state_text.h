#pragma once

#include <string>

#include "assay/compare/comparison.h"

namespace assay {

// What became of the records from the token at which the two logs part, which there must be: "384
// records of the reference from there on are unproven".
std::string after_split_text(const Comparison& comparison);

// Why records are unproven, or excused: the one reason of all of them, or the most frequent one;
// empty where none is.
std::string reason_of_all(const Comparison& comparison, Evidence state);

}  // namespace assay
