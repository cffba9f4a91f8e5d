#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor_type.h"

namespace assay {

// A tensor of a file in the safetensors format, F32, F16 or BF16.
struct SafetensorsEntry {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;  // the length of a row comes last
};

// What comes before the tensors' data, which follow each other in this order: the length of the
// header, and the header as JSON, padded so that the data begins at a multiple of eight bytes.
std::string safetensors_header(std::span<const SafetensorsEntry> entries);

// Of all tensors.
uint64_t safetensors_data_bytes(std::span<const SafetensorsEntry> entries);

}  // namespace assay
