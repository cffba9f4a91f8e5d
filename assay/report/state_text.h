#pragma once

#include <string>
#include <string_view>

#include "assay/compare/comparison.h"
#include "assay/report/checkpoint_groups.h"

namespace assay {

// The one word for what became of a record: its status where that was decided, else "unproven".
std::string_view state_name(const RecordResult& result);

// The same of all records of a checkpoint: what fails, then what is unproven, decides.
std::string_view state_name(const CheckpointGroup& group);

// Of a record whose two sides are not of one size: "318 values in the reference, 4096 in the
// other"; else empty.
std::string sizes_text(const RecordResult& result);

// What became of the records from the token at which the two logs part, which there must be: "384
// records of the reference from there on are unproven".
std::string after_split_text(const Comparison& comparison);

// Why records are unproven, or excused: the one reason of all of them, or the most frequent one;
// empty where none is.
std::string reason_of_all(const Comparison& comparison, Evidence state);

}  // namespace assay
