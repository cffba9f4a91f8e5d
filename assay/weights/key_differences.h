#pragma once

#include <string>
#include <vector>

#include "assay/weights/weights_comparison.h"
#include "engine/gguf.h"

namespace assay {

// A value of the metadata, for people: text shortened, an array by its length.
std::string metadata_text(const GgufValue& value);

// The keys that the two files do not state alike. Those of the network count if both files state
// them otherwise, read or not, or if they make the two networks differ, as what a file leaves out
// is a default. The length of the context does not count by itself. Those of the tokenizer count,
// unless one of the two is a Hugging Face folder, which has none: then `warnings` says so. All
// others only describe the file.
std::vector<KeyDifference> key_differences(const Gguf& ref, const Gguf& got,
                                           std::vector<std::string>& warnings);

}  // namespace assay
