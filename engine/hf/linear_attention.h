#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/hf/json_object.h"
#include "engine/hf/keys.h"
#include "engine/hf/tensor_forms.h"

namespace assay {

// In layer_types: linear attention.
inline constexpr std::string_view kLinearLayer = "linear_attention";

// The sizes of linear attention, where the architecture has it.
void read_linear_attention(const ConfigObject& object, HfConfig& config, Keys& keys);

// Whether each layer has it.
std::vector<bool> linear_attention_layers(const ConfigObject& object, const HfConfig& config);

// transformers has value heads in groups that read one key head, a GGUF file may have them in the
// order in which they read key heads 0, 1, ..., 0, 1, ... The row of transformers' module that is
// row i of the op's tensor in a file; empty if they are in one order.
std::vector<int64_t> linear_attention_rows(const HfConfig& config, const OpSpec& op);

// How many rows that module has, where it has those of another tensor, too; else 0.
int64_t linear_attention_module_rows(const HfConfig& config, const OpSpec& op);

// Likewise of the columns of the product behind it.
std::vector<int64_t> linear_attention_columns(const HfConfig& config, const OpSpec& op);

// -e^x of each value, as float.
FormedTensor minus_exp(const FormedTensor& tensor, std::deque<std::string>& made);

}  // namespace assay
