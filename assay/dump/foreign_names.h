#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"

namespace assay {

// What a module of a layer, or one outside of the layers, gives.
struct ForeignTarget {
  Checkpoint checkpoint = Checkpoint::kOutput;
  std::string_view part = {};  // of a fused product, as in a map
  bool hf_rows = false;        // rows of Q and K are in the order that transformers has
};

// A name without separators and case, and without what hooks add at its end: "attnq" of "/attn_q",
// ".attn.q.output" and "[attn.Q]".
std::string bare_name(std::string_view name);

// Where the digits of a layer's number are in a name: behind "layers.", "blk", "h." and the like;
// nothing where none are. [begin, end).
struct LayerDigits {
  size_t begin = 0;
  size_t end = 0;
};
std::optional<LayerDigits> find_layer_digits(std::string_view name);

// What other engines call so, and Assay and GGUF files; empty where it is not known, or may be one
// thing or another. `module`: what bare_name() leaves of the name behind the layer's number.
std::vector<ForeignTarget> foreign_targets_in_layer(std::string_view module);
// Of a whole name outside of the layers.
std::vector<ForeignTarget> foreign_targets_outside(std::string_view name);

}  // namespace assay
