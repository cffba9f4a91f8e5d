#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/functions.h"

// The int8 products of `fast` math: between cpu_kernels.cc, which is compiled once and shares work
// out to threads, and what is compiled once for each instruction set.
namespace assay::cpu {

// A row of activations as whole numbers from -127 to 127 with one scale for each 32 of them.
// Arrays are as long as `blocks` rounded up to 8 asks for; what is beyond the row is zero.
struct QuantizedRow {
  const int8_t* codes;    // [blocks * 32]
  const float* scale;     // [blocks]: x[i] is about scale * code
  const float* sum;       // [blocks]: scale * the sum of a block's codes
  const int32_t* total;   // [blocks]: the sum of a block's codes
  const int32_t* halves;  // [blocks * 2]: of its first and last 16; of each four blocks the first
                          // ones, then the last ones
};

// Of one instruction set; every set gives the same bits, and each element of a result is the same
// however rows and tokens are grouped into calls.
struct Int8Functions {
  // Bytes that a row of `columns` activations takes; a multiple of 64.
  int64_t (*row_bytes)(int64_t columns);
  // x[columns] to the row at `out`. Blocks whose largest value is below 1e-30 become zero; a block
  // with a NaN or an infinity gives NaN in everything that is computed from it.
  void (*quantize)(const float* x, int64_t columns, uint8_t* out);

  // Rows [first, last) of the product of m.w with the quantised rows at `x`. For all types that are
  // stored in blocks. scratch[scratch(m)] is aligned to 64 bytes.
  void (*matmul_rows)(const Matmul& m, const uint8_t* x, int64_t first, int64_t last,
                      float* scratch);
  int64_t (*scratch)(const Matmul& m);
};

}  // namespace assay::cpu

namespace assay::portable {
const cpu::Int8Functions& int8_functions();
}
#if defined(__x86_64__)
namespace assay::avx2 {
const cpu::Int8Functions& int8_functions();
}
namespace assay::avxvnni {
const cpu::Int8Functions& int8_functions();
}
namespace assay::avx512vnni {
const cpu::Int8Functions& int8_functions();
}
#endif
