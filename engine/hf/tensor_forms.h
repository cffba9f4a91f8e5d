#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine/hf/config.h"
#include "kernels/tensor_type.h"
#include "model/op.h"

namespace assay {

// A matrix or vector in memory, as a GGUF file would have it.
struct FormedTensor {
  TensorType type = TensorType::kF32;
  std::vector<int64_t> dims;  // as GgufTensor::dims
  std::span<const std::byte> data;
};

// The weights of `op` (or its biases, which are a row) as a GGUF file has them, from those of
// transformers. What has to be changed is copied to `made`; `tensor` is returned if nothing has to
// be. Throws Error that says what is wrong with the shape.
FormedTensor formed(const FormedTensor& tensor, const HfConfig& config, const OpSpec& op,
                    std::deque<std::string>& made);

// The row of transformers' module that is row i of the op's tensor in a GGUF file, of the weights
// and of the biases; empty if they are in one order.
std::vector<int64_t> module_rows(const HfConfig& config, const OpSpec& op);

// How many rows that module has, where it has those of another tensor, too; else 0.
int64_t shared_module_rows(const HfConfig& config, const OpSpec& op);

// The values, each with 1 added to it as 32-bit floats.
FormedTensor plus_one(const FormedTensor& tensor, std::deque<std::string>& made);

// Tensors of one shape, one after the other: rows become a matrix.
FormedTensor stacked(std::span<const FormedTensor> rows, std::deque<std::string>& made);

// The tensor where its elements are aligned.
FormedTensor aligned(const FormedTensor& tensor, std::deque<std::string>& made);

}  // namespace assay
