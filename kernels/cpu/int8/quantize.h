#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8/simd.h"

namespace assay::ASSAY_ISA {

// A row of activations as whole numbers from -127 to 127 with one scale for each 32 of them.
// Arrays are as long as padded_blocks() asks for; what is beyond the row is zero.
struct QuantizedRow {
  const int8_t* codes;    // [blocks * 32]
  const float* scale;     // [blocks]: x[i] is about scale * code
  const float* sum;       // [blocks]: scale * the sum of a block's codes
  const int32_t* total;   // [blocks]: the sum of a block's codes
  const int32_t* halves;  // [blocks * 2]: of its first and its last 16, in the order of half_sums
};

// Blocks of 32 in a row, rounded up to whole groups of eight.
inline int64_t padded_blocks(int64_t columns) {
  return (columns / 32 + 7) / 8 * 8;
}

constexpr int64_t kQuantizedBlockBytes = 32 + 4 * (1 + 1 + 1 + 2);

inline int64_t quantized_row_bytes(int64_t columns) {
  return padded_blocks(columns) * kQuantizedBlockBytes;
}

// Where the arrays of the row at `bytes` are.
inline QuantizedRow quantized_row(const uint8_t* bytes, int64_t columns) {
  const int64_t blocks = padded_blocks(columns);
  const auto* floats = reinterpret_cast<const float*>(bytes + blocks * 32);
  const auto* ints = reinterpret_cast<const int32_t*>(floats + 2 * blocks);
  return {reinterpret_cast<const int8_t*>(bytes), floats, floats + blocks, ints, ints + blocks};
}

// Where in QuantizedRow::halves the first half of block j is; its last half is four places on.
inline int64_t half_place(int64_t j) {
  return j / 4 * 8 + j % 4;
}

// Blocks whose largest value is below 1e-30 become zero. A block with a NaN or an infinity has NaN
// for its scale, and gives NaN in everything that is computed from it.
inline void quantize_row(const float* x, int64_t columns, uint8_t* out) {
  constexpr float kLeast = 1e-30F;
  std::memset(out, 0, static_cast<size_t>(quantized_row_bytes(columns)));
  auto* const codes = reinterpret_cast<int8_t*>(out);
  auto* const scales = reinterpret_cast<float*>(out + padded_blocks(columns) * 32);
  float* const sums = scales + padded_blocks(columns);
  auto* const totals = reinterpret_cast<int32_t*>(sums + padded_blocks(columns));
  int32_t* const halves = totals + padded_blocks(columns);
  const int64_t blocks = columns / 32;
  for (int64_t j = 0; j < blocks; ++j) {
    const F32x16 a = load(x + 32 * j);
    const F32x16 b = load(x + 32 * j + 16);
    const auto magnitude = [](F32x16 v) { return max(v, sub(zero(), v)); };
    const float largest = max_lane(max(magnitude(a), magnitude(b)));
    // 0, or NaN if one of the values is NaN or infinite
    const float poison = sum(fma(a, zero(), fma(b, zero(), zero())));
    const bool counts = largest >= kLeast;
    const float scale = (counts ? largest / 127.0F : 0.0F) + poison;
    const F32x16 inverse = splat(counts ? 127.0F / largest : 0.0F);
    const I32x16 first = to_nearest(mul(a, inverse));
    const I32x16 last = to_nearest(mul(b, inverse));
    store_low_bytes(codes + 32 * j, first);
    store_low_bytes(codes + 32 * j + 16, last);
    const int32_t first_sum = poison == 0 ? sum(first) : 0;
    const int32_t last_sum = poison == 0 ? sum(last) : 0;
    scales[j] = scale;
    totals[j] = first_sum + last_sum;
    sums[j] = scale * static_cast<float>(totals[j]);
    halves[half_place(j)] = first_sum;
    halves[half_place(j) + 4] = last_sum;
  }
}

}  // namespace assay::ASSAY_ISA
