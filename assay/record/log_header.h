#pragma once

#include <cstdint>
#include <span>

#include "assay/log/record.h"
#include "engine/model.h"

namespace assay {

// The first line of a log of this engine: the model with the hash of its file, and the prompt's
// tokens. Prompt text, backend and math are the caller's to fill in.
LogHeader log_header_of(const Model& model, std::span<const int32_t> tokens);

}  // namespace assay
