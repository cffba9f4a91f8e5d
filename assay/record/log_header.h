#pragma once

#include <cstdint>
#include <span>

#include "assay/log/record.h"
#include "engine/model.h"

namespace assay {

// The first line of a log of this engine: the model with the hash of its file, and the prompt's
// tokens. The caller fills in prompt text, backend and math.
LogHeader log_header_of(const Model& model, std::span<const int32_t> tokens);

}  // namespace assay
