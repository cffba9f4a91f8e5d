#pragma once

#include <cstdint>

#include "engine/config_keys.h"

namespace assay {

// Pairs of a head take turns in being turned by time, height and width, which are one number in
// text. llama.cpp leaves pairs as they are for which the sections have no more room, and
// transformers does not: throws Error if there are such pairs.
void check_rope_sections(const ConfigKeys& keys, int64_t rotary_dim);

}  // namespace assay
