#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/dump/dump_log.h"

namespace assay {

// A map from the names of a dump to those of the checkpoints, as --map reads it: one rule for a
// name in all layers. Names are looked up among transformers' modules (model/hf_names.h), whatever
// stands before the layers; of the kinds of models, that which explains most of them; and then
// among those of other engines (foreign_names.h). A name that
// none explains, or whose width is not the model's where it has to be, has the rule "to": null.
struct SuggestedMap {
  std::string json;
  std::vector<std::string> unknown;  // names with {N} in the place of the layer
  int64_t known = 0;
};

// "layer_7_output", "logits": a name that needs no rule.
bool is_checkpoint(std::string_view name);

SuggestedMap suggest_map(const std::vector<DumpedName>& names);

}  // namespace assay
