#pragma once

#include <cstdint>

#include "kernels/tensor_type.h"

namespace assay {

// Whether quantize_row() stores this type: those with codebooks are only read.
bool can_quantize(TensorType type);

// Stores `n` elements of a row at `out` as `type`: the inverse of dequantize_row(), row_bytes(type,
// n) bytes. `n` is a multiple of the type's block_elements; the values are finite and their
// magnitude at most 65504 (block scales are binary16).
//
// F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and MXFP4 have one formula each in the format's
// reference, and these are its bits. For the k-quants the format says only how a block is read;
// here the scale and minimum of each sub-block are chosen for the least squared error, by least
// squares over the codes that a few trial scales give. The same bits on every machine: no sum's
// order, rounding or library function is left open.
void quantize_row(TensorType type, const float* in, int64_t n, void* out);

}  // namespace assay
