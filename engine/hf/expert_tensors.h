#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/hf/config.h"
#include "engine/hf/tensor_forms.h"

namespace assay {

// The tensor of this name; empty if the files have none.
using FindTensor = std::function<std::optional<FormedTensor>(const std::string& name)>;

// One tensor of all experts of a layer.
struct ExpertTensorName {
  std::string_view folder;  // for messages
  std::string_view layer;   // its path in transformers' model, with a dot
  std::string_view tensor;  // as OpSpec::tensor
  std::string_view suffix;  // ".weight" or ".bias"
};

// It as a GGUF file has it: [columns, rows, n_experts], and [rows, n_experts] of biases. Files have
// the experts one by one, all together, or gate and up in one tensor. Empty if they have none.
// Throws Error that names the tensor whose shape does not fit.
std::optional<FormedTensor> expert_tensor(const HfConfig& config, const ExpertTensorName& wanted,
                                          const FindTensor& find, std::deque<std::string>& made);

// Where files of this form have it: its path in a layer, with {} for the number of the expert where
// the experts are one by one.
std::string_view expert_path(HfExperts form, std::string_view tensor);

}  // namespace assay
