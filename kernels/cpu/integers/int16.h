#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/functions.h"
#include "kernels/cpu/integers/panel.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/weights.h"
#include "kernels/tensor_type.h"

// Products of F16 and BF16 weights with activations, both as whole numbers of 14 bits. A block is
// 32 elements of a row; behind the last element are zeros.
//
// - An activation is code * scale, with scale = the largest of the block / 8191.
// - A weight is code * unit, where the power of two `unit` makes the codes of the block's largest
//   4096 or more. So a weight of F16 that is at least a quarter of it, or one of BF16 that is at
//   least a 32nd, is exact.
//
// The order of every sum: the 32 products of a block are below 2^31 together, exact in any order.
// Block j goes into lane j % 8 of eight float lanes by one fused multiply-add, and the lanes are
// added by the tree of sum(F32x8).
namespace assay::ASSAY_ISA {

constexpr int64_t kPairBlock = 32;  // elements
constexpr int64_t kPairBytes = kPairBlock * 2;
constexpr int64_t kPairs = 16;

inline int64_t pair_blocks(int64_t columns) {
  return (columns + kPairBlock - 1) / kPairBlock;
}

// Rounded up to whole groups of eight.
inline int64_t padded_pair_blocks(int64_t columns) {
  return (pair_blocks(columns) + 7) / 8 * 8;
}

// The exponents of the 16-bit types. Below `least`, all have its unit: of BF16 they would have one
// that no float is.
struct HalfUnits {
  int mantissa_bits;
  int32_t least;
  int32_t infinite;
  int32_t bias;
};

template <class Type>
constexpr HalfUnits kUnits = {};
template <>
inline constexpr HalfUnits kUnits<F16> = {10, 1, 31, 15};
template <>
inline constexpr HalfUnits kUnits<BF16> = {7, 16, 255, 127};

// A float that a whole number of up to 22 bits is added to: the low bits of the sum are those of
// the number that it is rounded to.
constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23

// What stands for eight blocks of a row of weights.
struct BlockUnits {
  float unit[8];     // NaN if a weight is NaN or infinite
  float rounder[8];  // of F16 kRounder * unit; of BF16, where that may be infinite, 1 / unit
};

// Of the first n of eight blocks.
template <class Type>
ASSAY_ALWAYS_INLINE void read_units(const uint8_t* blocks, int64_t n, BlockUnits& units) {
  constexpr HalfUnits kOf = kUnits<Type>;
  constexpr int32_t kUnitBias = 127 - kOf.bias - 12;
  const I32x8 own = shift_right<kOf.mantissa_bits>(largest_magnitudes(blocks, n));
  const I32x8 exponent = max(own, splat_int8(kOf.least));
  const I32x8 unit = shift_left<23>(add(exponent, splat_int8(kUnitBias)));
  store8(units.unit, float_or_nan(unit, own, kOf.infinite));
  if constexpr (std::is_same_v<Type, F16>) {
    store8(units.rounder, mul(as_floats(unit), splat8(kRounder)));
  } else {
    store8(units.rounder, as_floats(shift_left<23>(sub(splat_int8(254 - kUnitBias), exponent))));
  }
  pass_through_memory(units.rounder);
}

// The eight or sixteen weights at `p`, whose codes are the low bits.
template <class Type>
ASSAY_ALWAYS_INLINE F32x8 eight_codes(const uint8_t* p, float rounder) {
  if constexpr (std::is_same_v<Type, F16>) return add(load8_f16(p), splat8(rounder));
  return fma(load8_bf16(p), splat8(rounder), splat8(kRounder));
}

template <class Type>
ASSAY_ALWAYS_INLINE F32x16 sixteen_codes(const uint8_t* p, float rounder) {
  if constexpr (std::is_same_v<Type, F16>) return add(Type::read(p), splat(rounder));
  return fma(Type::read(p), splat(rounder), splat(kRounder));
}

// Eight blocks of a row, or the bytes that are left of it, with zeros behind them.
class PairChunk {
 public:
  static constexpr int64_t kElements = 8 * kPairBlock;

  PairChunk(const uint8_t* row, int64_t elements) : n_blocks_(pair_blocks(elements)) {
    std::memset(bytes_, 0, static_cast<size_t>(n_blocks_ * kPairBytes));
    std::memcpy(bytes_, row, static_cast<size_t>(elements) * 2);
  }
  const uint8_t* bytes() const { return bytes_; }
  int64_t n_blocks() const { return n_blocks_; }

 private:
  alignas(64) uint8_t bytes_[8 * kPairBytes];
  int64_t n_blocks_;
};

// A row of activations as codes, in the low bits of what is otherwise 0, and scales.
struct PairRow {
  const uint32_t* codes;  // [padded blocks, 32]
  const float* scale;     // [padded blocks]
};

constexpr int64_t kRowBlockBytes = (kPairBlock + 1) * 4;

inline int64_t pair_row_bytes(int64_t columns) {
  return padded_pair_blocks(columns) * kRowBlockBytes;
}

inline PairRow pair_row(const uint8_t* bytes, int64_t columns) {
  const auto* codes = reinterpret_cast<const uint32_t*>(bytes);
  return {codes, reinterpret_cast<const float*>(codes + padded_pair_blocks(columns) * kPairBlock)};
}

// 32 activations whose codes are the low bits of these floats.
struct RoundedBlock {
  F32x16 first;
  F32x16 second;
  float scale;
};

ASSAY_ALWAYS_INLINE RoundedBlock round_block(const float* x) {
  const BlockScale block = block_scale(largest_magnitude(x), 8191.0F);
  if (!block.counts) return {zero(), zero(), block.scale};
  const auto rounded = [&](const float* values) {
    return add(mul(load(values), splat(block.inverse)), splat(kRounder));
  };
  return {rounded(x), rounded(x + kPairs), block.scale};
}

// put(j, block) of every block of x[columns].
template <class Put>
ASSAY_ALWAYS_INLINE void round_blocks(const float* x, int64_t columns, const Put& put) {
  int64_t j = 0;
  for (; (j + 1) * kPairBlock <= columns; ++j) put(j, round_block(x + j * kPairBlock));
  const int64_t done = j * kPairBlock;
  if (done == columns) return;
  float last[kPairBlock] = {};
  std::memcpy(last, x + done, static_cast<size_t>(columns - done) * sizeof(float));
  put(j, round_block(last));
}

inline void round_pair_row(const float* x, int64_t columns, uint8_t* out) {
  std::memset(out, 0, static_cast<size_t>(pair_row_bytes(columns)));
  auto* const codes = reinterpret_cast<uint32_t*>(out);
  auto* const scales = reinterpret_cast<float*>(codes + padded_pair_blocks(columns) * kPairBlock);
  round_blocks(x, columns, [&](int64_t j, const RoundedBlock& block) {
    float own[kPairBlock];
    store(own, block.first);
    store(own + kPairs, block.second);
    for (int64_t i = 0; i < kPairBlock; ++i) {
      codes[j * kPairBlock + i] = float_bits(own[i]) & 0xFFFFU;
    }
    scales[j] = block.scale;
  });
}

// Adds the first n of eight blocks to the row's lanes; `j` is the first.
template <class Type>
ASSAY_ALWAYS_INLINE F32x8 add_pair_blocks(const uint8_t* data, int64_t n, int64_t j,
                                          const BlockUnits& units, const PairRow& x, F32x8 lanes) {
  I32x8 dots[8] = {};
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    if (p >= n) break;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPairBlock; i += 8) {
      const F32x8 codes = eight_codes<Type>(data + p * kPairBytes + 2 * i, units.rounder[p]);
      dots[p] = add_low_products(dots[p], codes, x.codes + (j + p) * kPairBlock + i);
    }
  }
  const F32x8 both = mul(load8(units.unit), load8(x.scale + j));
  return fma(to_float(all_sums(dots)), both, lanes);
}

// The units of eight blocks are read while those before them are multiplied. Rows ask far ahead
// into the second-level cache, which has places for more lines on their way from memory than the
// first has, and from there shortly before they are needed.
template <class Type>
ASSAY_ALWAYS_INLINE float dot_pair_row(const uint8_t* row, int64_t columns, const PairRow& x) {
  F32x8 lanes = zero8();
  const int64_t whole = columns / PairChunk::kElements * 8;  // blocks
  BlockUnits units[2];
  if (whole > 0) read_units<Type>(row, 8, units[0]);
  for (int64_t j = 0; j < whole; j += 8, row += 8 * kPairBytes) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < 8 * kPairBytes; line += 64) {
      __builtin_prefetch(row + 8192 + line, 0, 2);
      __builtin_prefetch(row + 1024 + line);
    }
    if (j + 8 < whole) read_units<Type>(row + 8 * kPairBytes, 8, units[(j / 8 + 1) % 2]);
    lanes = add_pair_blocks<Type>(row, 8, j, units[j / 8 % 2], x, lanes);
  }
  const int64_t left = columns - whole * kPairBlock;
  if (left == 0) return sum(lanes);
  const auto add_last = [&](const uint8_t* data, int64_t n) {
    read_units<Type>(data, n, units[0]);
    return sum(add_pair_blocks<Type>(data, n, whole, units[0], x, lanes));
  };
  if (left % kPairBlock == 0) return add_last(row, left / kPairBlock);
  const PairChunk last(row, left);
  return add_last(last.bytes(), last.n_blocks());
}

// What panel.h asks of these products: 16 words of two numbers a block.
struct PairTraits {
  static constexpr bool kShifted = false;
  static constexpr int32_t kOffset = 0;
  static constexpr bool kTwoScales = false;
  static constexpr int64_t kWords = kPairs;
  static constexpr int64_t kLanesTogether = 1;
  static ASSAY_ALWAYS_INLINE I32x16 add_products(I32x16 sums, const uint8_t* rows,
                                                 const uint8_t* x) {
    return add_pair_products(sums, rows, x);
  }
};

// A word has elements i and i + 16 of a block; the scale is the weights' unit.
inline int64_t pair_panel_floats(int64_t columns) {
  return padded_pair_blocks(columns) * kPanelRows * (kPairs + 1);
}

inline RowPanel pair_panel(float* scratch, int64_t columns) {
  return {reinterpret_cast<uint8_t*>(scratch),
          scratch + padded_pair_blocks(columns) * kPanelRows * kPairs, nullptr};
}

struct PanelPairs {
  alignas(64) uint8_t codes[8][kPanelRows][kPairBytes];
  float unit[kPanelRows][8];
};

template <class Type>
ASSAY_ALWAYS_INLINE void read_pair_blocks(const uint8_t* data, int64_t n, int64_t r,
                                          PanelPairs& rows) {
  BlockUnits units;
  read_units<Type>(data, n, units);
  std::memcpy(rows.unit[r], units.unit, sizeof(rows.unit[r]));
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    if (p >= n) break;
    const uint8_t* const block = data + p * kPairBytes;
    store_pairs(rows.codes[p][r], pair_up(sixteen_codes<Type>(block, units.rounder[p]),
                                          sixteen_codes<Type>(block + 32, units.rounder[p])));
  }
}

template <class Type>
void fill_pair_panel(const uint8_t* row, size_t stride, int64_t n_rows, int64_t columns,
                     const RowPanel& panel) {
  const int64_t padded = padded_pair_blocks(columns);
  PanelPairs rows = {};
  for (int64_t done = 0; done < columns; done += PairChunk::kElements) {
    const int64_t j = done / kPairBlock;
    const int64_t left = columns - done;
    const int64_t n = left < PairChunk::kElements ? pair_blocks(left) : 8;
    for (int64_t r = 0; r < n_rows; ++r) {
      const uint8_t* const data = row + static_cast<size_t>(r) * stride + done * 2;
      for (int64_t line = 0; line < 8 * kPairBytes; line += 64) {
        __builtin_prefetch(data + kPanelRows * stride + static_cast<size_t>(line));
      }
      if (left >= PairChunk::kElements) {
        read_pair_blocks<Type>(data, 8, r, rows);
      } else {
        const PairChunk last(data, left);
        read_pair_blocks<Type>(last.bytes(), n, r, rows);
      }
    }
    for (int64_t p = 0; p < n; ++p) {
      const int64_t place = sorted_block(j + p, padded);
      uint8_t* const codes = panel.codes + place * kPairs * kRowWordBytes;
#pragma GCC unroll 2
      for (int64_t half = 0; half < 2; ++half) {
        uint8_t* places[8];
        for (int64_t k = 0; k < 8; ++k) places[k] = codes + (8 * half + k) * kRowWordBytes;
        transpose_rows(rows.codes[p][0] + 32 * half, kPairBytes, places);
      }
      for (int64_t r = 0; r < kPanelRows; ++r) {
        panel.scale[place * kPanelRows + r] = rows.unit[r][p];
      }
    }
  }
}

// The rounded rows of n tokens; n * pair_row_bytes() bytes in all.
inline TokenTile pair_tile(const uint8_t* bytes, int64_t n, int64_t columns) {
  const int64_t all = padded_pair_blocks(columns) * n;
  return {bytes,   reinterpret_cast<const float*>(bytes + all * kPairBytes),
          nullptr, nullptr,
          nullptr, nullptr};
}

inline void round_pair_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
  const int64_t padded = padded_pair_blocks(columns);
  auto* const scales = reinterpret_cast<float*>(out + n * padded * kPairBytes);
  for (int64_t t = 0; t < n; ++t) {
    round_blocks(x + t * columns, columns, [&](int64_t j, const RoundedBlock& block) {
      const int64_t place = sorted_block(j, padded);
      uint8_t bytes[kPairBytes];
      store_pairs(bytes, pair_up(block.first, block.second));
      for (int64_t pair = 0; pair < kPairs; ++pair) {
        std::memcpy(out + ((place * kPairs + pair) * n + t) * 4, bytes + 4 * pair, 4);
      }
      scales[place * n + t] = block.scale;
    });
  }
}

}  // namespace assay::ASSAY_ISA
