#pragma once

#include <optional>
#include <string>

#include "assay/compare/several.h"
#include "assay/report/json_object.h"

namespace assay {

// "layer_3_q at 7", or "-".
std::string divergence_place(const std::optional<FirstDivergence>& first);

// The members of one pair of runs.
void append_pair(const RunPair& pair, JsonObject& object);

}  // namespace assay
