#pragma once

#include <cstdint>

#include "kernels/tensor_type.h"

namespace assay {

// The first `n` elements of a row stored at `data` as `type`, as float: out[n]. `n` is a multiple
// of the type's block_elements; `data` needs no alignment. Bit for bit what the `gguf` Python
// package gives: float32 arithmetic, each product and sum rounded.
void dequantize_row(TensorType type, const void* data, int64_t n, float* out);

}  // namespace assay
