#pragma once

#include <cstdint>
#include <vector>

#include "engine/model.h"

namespace assay {

// The divisors of the rotary frequencies (empty: all 1) for a sequence of up to `n_positions`: the
// short ones up to the context length the model was first trained for, then the long ones.
const std::vector<float>& rope_factors_for(const Model& model, int64_t n_positions);

// How far each pair of elements turns from one position to the next, in radians: [rotary_dim / 2].
// scale / (base^(2i / rotary_dim) * factors[i]), which YaRN mixes with the same at scale 1;
// `factors` is empty or holds rotary_dim / 2 divisors. `local`: of layers with local_rope.
std::vector<double> rotary_frequencies(const ModelConfig& config, const std::vector<float>& factors,
                                       bool local = false);

// cos and sin of each token's rotary angles, [n_tokens, rotary_dim / 2, 2], for the positions
// first_position, first_position + 1, ... Angles are computed in double; an error of
// half a unit in the last place of the float remains. `factors` and `local` as above.
std::vector<float> rope_table(const ModelConfig& config, const std::vector<float>& factors,
                              int64_t first_position, int64_t n_tokens, bool local = false);

}  // namespace assay
