#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/simd.h"

namespace assay::ASSAY_ISA {

// A row of activations as whole numbers from -127 to 127 with one scale for each block of 32.
// Arrays are as long as padded_blocks() asks for; what is beyond the row is zero. Those of halves
// of blocks, 16 codes each, are in the order of half_sums: half_place().
struct QuantizedRow {
  const int8_t* codes;        // [blocks * 32]
  const float* scale;         // [blocks]: x[i] is about scale * code
  const float* sum;           // [blocks]: scale * the sum of a block's codes
  const int32_t* total;       // [blocks]: the sum of a block's codes
  const float* half_sum;      // [blocks * 2]: the same of halves
  const int32_t* half_total;  // [blocks * 2]
};

// Blocks of 32 in a row, rounded up to whole groups of eight.
inline int64_t padded_blocks(int64_t columns) {
  return (columns / 32 + 7) / 8 * 8;
}

constexpr int64_t kQuantizedBlockBytes = 32 + (3 + 2 * 2) * 4;

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
  const auto* floats = reinterpret_cast<const float*>(bytes + blocks * 32);
  const auto* ints = reinterpret_cast<const int32_t*>(floats + 4 * blocks);
  return {reinterpret_cast<const int8_t*>(bytes),
          floats,
          floats + blocks,
          ints,
          floats + 2 * blocks,
          ints + blocks};
}

// By what a block of 32 activations, of which the largest absolute value has these bits, is
// multiplied to be rounded to whole numbers of up to `most`, and the scale that these have. A block
// whose largest value is below 1e-30 becomes zero. One with a NaN or an infinity, whose bits are
// the largest, has NaN for its scale, and gives NaN in everything that is computed from it.
struct BlockScale {
  bool counts;  // else all codes are 0
  float inverse;
  float scale;
};

ASSAY_ALWAYS_INLINE BlockScale block_scale(uint32_t largest_bits, float most) {
  constexpr float kLeast = 1e-30F;
  constexpr uint32_t kInfinity = 0x7F800000U;
  if (largest_bits >= kInfinity) return {false, 0, NAN};
  const float largest = float_from_bits(largest_bits);
  if (largest < kLeast) return {false, 0, 0};
  return {true, most / largest, largest / most};
}

// Eight blocks, of which the first n are in the row at `x`.
struct EightBlocks {
  alignas(32) int8_t codes[8][32];
  F32x8 scale;
  F32x8 sum;
  I32x8 total;
  F32x8 half_sum[2];
  I32x8 half_total[2];
};

ASSAY_ALWAYS_INLINE void quantize_blocks(const float* x, int64_t n, EightBlocks& out) {
  float scales[8];
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    const BlockScale block =
        p < n ? block_scale(largest_magnitude(x + 32 * p), 127.0F) : BlockScale{};
    scales[p] = block.scale;
    if (!block.counts) {
      std::memset(out.codes[p], 0, sizeof(out.codes[p]));
      continue;
    }
    const auto rounded = [&](const float* values) {
      return to_nearest(mul(load(values), splat(block.inverse)));
    };
    store_low_bytes(out.codes[p], rounded(x + 32 * p), rounded(x + 32 * p + 16));
  }
  I32x8 dots[8];
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) dots[p] = dot32<false>(splat_byte(1), out.codes[p]);
  out.scale = set8(scales);
  out.total = all_sums(dots);
  out.sum = mul(out.scale, to_float(out.total));
  const F32x8 of_halves[2] = {first_four_twice(out.scale), last_four_twice(out.scale)};
#pragma GCC unroll 2
  for (int64_t i = 0; i < 2; ++i) {
    out.half_total[i] = half_sums(dots[4 * i], dots[4 * i + 1], dots[4 * i + 2], dots[4 * i + 3]);
    out.half_sum[i] = mul(of_halves[i], to_float(out.half_total[i]));
  }
}

inline void quantize_row(const float* x, int64_t columns, uint8_t* out) {
  const int64_t blocks = padded_blocks(columns);
  auto* const floats = reinterpret_cast<float*>(out + blocks * 32);
  auto* const ints = reinterpret_cast<int32_t*>(floats + 4 * blocks);
  for (int64_t j = 0; j < blocks; j += 8) {
    EightBlocks eight;
    quantize_blocks(x + 32 * j, columns / 32 - j, eight);
    std::memcpy(out + 32 * j, eight.codes, sizeof(eight.codes));
    store8(floats + j, eight.scale);
    store8(floats + blocks + j, eight.sum);
    std::memcpy(floats + 2 * blocks + 2 * j, eight.half_sum, sizeof(eight.half_sum));
    std::memcpy(ints + j, &eight.total, sizeof(eight.total));
    std::memcpy(ints + blocks + 2 * j, eight.half_total, sizeof(eight.half_total));
  }
}

}  // namespace assay::ASSAY_ISA
