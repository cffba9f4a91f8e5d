#pragma once

#include <functional>
#include <string>
#include <vector>

#include "assay/mistakes/block_layout.h"

namespace assay::mistakes {

using BlockEdit = std::function<void(Bytes block)>;

// A way to get the blocks of a type wrong: an edit of the bytes of each, which then are read
// rightly. An engine that reads blocks so, and a file that a quantiser packed so, have the same
// weights.
struct BlockMistake {
  TensorType type;
  std::string reading;  // of an engine: "takes ..."; empty where none reads so
  std::string packing;  // of a file's tensor: "has ..."
  BlockEdit edit;
  std::string fault = {};  // its name where it is injected, too,
  std::string what = {};   // and what an engine does then
};

// Those of all types, in the order in which a search tries them.
std::vector<BlockMistake> block_edits();

}  // namespace assay::mistakes
