#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/tensor_type.h"

namespace assay {

// A tensor of a safetensors file. Checked: its bytes lie inside the file and are as many as its
// shape says.
struct StoredTensor {
  std::string name;
  std::string dtype;               // as the file writes it
  std::optional<TensorType> type;  // of F32, F16 and BF16
  std::vector<int64_t> shape;      // the length of a row comes last
  std::span<const std::byte> data;
};

// The tensors of a file in the safetensors format
// (https://github.com/huggingface/safetensors#format), which is hostile until proven otherwise.
// They point into `file`. Throws Error that names the file and the tensor at fault.
std::vector<StoredTensor> read_safetensors(const MappedFile& file);

}  // namespace assay
