#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/simd.h"

namespace assay::ASSAY_ISA {

// A row of activations as whole numbers from -127 to 127 with one scale for each 16 of them, a half
// of a block. Arrays are as long as padded_blocks() asks for; what is beyond the row is zero. Those
// of halves are in the order of half_sums: half_place().
struct QuantizedRow {
  const int8_t* codes;   // [blocks * 32]
  const float* scale;    // [blocks * 2]: x[i] is about scale * code
  const float* sum;      // [blocks * 2]: scale * the sum of a half's codes
  const int32_t* total;  // [blocks * 2]: the sum of a half's codes
};

// Blocks of 32 in a row, rounded up to whole groups of eight.
inline int64_t padded_blocks(int64_t columns) {
  return (columns / 32 + 7) / 8 * 8;
}

constexpr int64_t kQuantizedBlockBytes = 32 + 2 * 3 * 4;

inline int64_t quantized_row_bytes(int64_t columns) {
  return padded_blocks(columns) * kQuantizedBlockBytes;
}

// Where the first half of block j is; its last half is four places on.
inline int64_t half_place(int64_t j) {
  return j / 4 * 8 + j % 4;
}

// Where the arrays of the row at `bytes` are.
inline QuantizedRow quantized_row(const uint8_t* bytes, int64_t columns) {
  const int64_t blocks = padded_blocks(columns);
  const auto* scale = reinterpret_cast<const float*>(bytes + blocks * 32);
  return {reinterpret_cast<const int8_t*>(bytes), scale, scale + 2 * blocks,
          reinterpret_cast<const int32_t*>(scale + 4 * blocks)};
}

// A half whose largest value is below 1e-30 becomes zero. One with a NaN or an infinity has NaN for
// its scale, and gives NaN in everything that is computed from it.
inline void quantize_row(const float* x, int64_t columns, uint8_t* out) {
  constexpr float kLeast = 1e-30F;
  const int64_t blocks = padded_blocks(columns);
  std::memset(out, 0, static_cast<size_t>(quantized_row_bytes(columns)));
  auto* const codes = reinterpret_cast<int8_t*>(out);
  auto* const scales = reinterpret_cast<float*>(out + blocks * 32);
  float* const sums = scales + 2 * blocks;
  auto* const totals = reinterpret_cast<int32_t*>(sums + 2 * blocks);
  for (int64_t i = 0; i < columns / 16; ++i) {
    const F32x16 values = load(x + 16 * i);
    const float largest = max_lane(max(values, sub(zero(), values)));
    const float poison = sum(mul(values, zero()));  // NaN if a value is NaN or infinite, else 0
    const bool counts = largest >= kLeast;
    const I32x16 rounded = to_nearest(mul(values, splat(counts ? 127.0F / largest : 0.0F)));
    const int64_t place = half_place(i / 2) + i % 2 * 4;
    store_low_bytes(codes + 16 * i, rounded);
    scales[place] = (counts ? largest / 127.0F : 0.0F) + poison;
    totals[place] = poison == 0 ? sum(rounded) : 0;
    sums[place] = scales[place] * static_cast<float>(totals[place]);
  }
}

}  // namespace assay::ASSAY_ISA
