#pragma once

#include <cstdint>

#include "kernels/tensor_type.h"

namespace assay {

// Whether quantize_row() stores this type: IQ1, IQ2 and IQ3, whose codebooks would have to be
// searched, are only read.
bool can_quantize(TensorType type);

// Stores `n` elements of a row at `out` as `type`: the inverse of dequantize_row(), row_bytes(type,
// n) bytes. `n` is a multiple of the type's block_elements; the values are finite and their
// magnitude at most 65504 (block scales are binary16).
//
// F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, MXFP4, NVFP4, TQ1_0 and TQ2_0 have one formula each in
// the format's reference, and these are its bits. For the k-quants, IQ4_NL and IQ4_XS the format
// says only how a block is read; here the scale and minimum of each sub-block are chosen for the
// least squared error, by least squares over the codes that a few trial scales give. The same bits
// on every machine: no sum's order, rounding or library function is left open.
void quantize_row(TensorType type, const float* in, int64_t n, void* out);

}  // namespace assay
