#pragma once

#include <cstdint>
#include <vector>

#include "engine/config_keys.h"
#include "model/architecture.h"

namespace assay {

// Whether llama.cpp turns this pair of a head in text: `sections` are four numbers of pairs, of
// which those of the last are not turned, as pairs that the three others have no room for.
bool is_turned_in_text(const std::vector<int64_t>& sections, RopeSections kind, int64_t pair);

// Pairs of a head are turned by time, height or width, which are one number in text. llama.cpp
// leaves pairs as they are for which the three sections have no more room (two of Qwen3-VL), and
// transformers turns them too, as a file says that is read from its folder. Divisors of the
// frequencies, [rotary_dim / 2], if there are such pairs; else nothing. Throws Error.
std::vector<float> divisors_of_sections(const ConfigKeys& keys, RopeSections kind,
                                        int64_t rotary_dim);

}  // namespace assay
