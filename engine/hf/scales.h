#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"
#include "engine/hf/tensor_forms.h"

namespace assay {

// HfConfig::scales, of the kinds of models that have any. `config` has the shape already.
void read_scales(const ConfigObject& object, HfConfig& config);

// The multipliers of a network (Multiplier), under the keys that GGUF files have for them.
void read_multipliers(const ConfigObject& object, const HfConfig& config, Keys& keys);

// Whether `key` is one of those numbers.
bool is_scale(const HfModel& model, std::string_view key);

// What row `row` of the tensor is multiplied by.
double row_scale(const HfConfig& config, std::string_view tensor, int64_t row);

// The tensor with its numbers multiplied, as F32; itself where all factors are 1.
FormedTensor scaled(const FormedTensor& tensor, const HfConfig& config, std::string_view name,
                    std::deque<std::string>& made);

// Whether embedding and output matrix, which transformers ties, are multiplied by other numbers, so
// that a GGUF file has to have both.
bool splits_tied(const HfConfig& config);

}  // namespace assay
