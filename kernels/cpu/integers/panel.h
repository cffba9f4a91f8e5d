#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/quantize.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/integers/weights.h"

// Products of sixteen rows with several tokens at once.
//
// Both sides are sorted so that the innermost loop reads them one after the other: the halves of
// blocks that go into the same lane of a row's sum (matmul.h) stand together; within a half, four
// codes of the first row (token), four of the second, and so on.
namespace assay::ASSAY_ISA {

// The place of half `half` of block `j` among those of a row of `blocks`, a multiple of 8.
inline int64_t sorted_place(int64_t j, int64_t half, int64_t blocks) {
  return (half_place(j % 8) + 4 * half) * (blocks / 8) + j / 8;
}

constexpr int64_t kPanelRows = 16;
constexpr int64_t kHalfBytes = 16;

struct RowPanel {
  uint8_t* codes;  // [blocks * 2, 4, 16, 4]
  float* scale;    // [blocks * 2, 16]
  float* shift;    // [blocks * 2, 16]; kShifted
};

inline int64_t panel_floats(int64_t columns) {
  return kPanelRows * padded_blocks(columns) * (32 / 4 + 2 + 2);
}

inline RowPanel row_panel(float* scratch, int64_t columns) {
  const int64_t lanes = kPanelRows * padded_blocks(columns);
  float* const scale = scratch + lanes * 8;
  return {reinterpret_cast<uint8_t*>(scratch), scale, scale + 2 * lanes};
}

// The 16 codes of a half, of row or token `t` of `n`, into the half at `out`.
template <class Byte>
ASSAY_ALWAYS_INLINE void spread_codes(const Byte* codes, int64_t t, int64_t n, uint8_t* out) {
#pragma GCC unroll 4
  for (int64_t quad = 0; quad < 4; ++quad) {
    std::memcpy(out + 4 * (quad * n + t), codes + 4 * quad, 4);
  }
}

// Sixteen rows of 32 bytes at `rows`, `stride` apart: four bytes of each to out[0], the next four
// of each to out[1], and so on.
ASSAY_ALWAYS_INLINE void transpose_rows(const uint8_t* rows, size_t stride,
                                        uint8_t* const (&out)[8]) {
  transpose8(rows, stride, 0, out);
  transpose8(rows + 8 * stride, stride, 32, out);
}

// What is read of a chunk of sixteen rows before it is sorted.
struct PanelChunk {
  uint8_t codes[8][kPanelRows][32];
  float scale[kPanelRows][16];
  float shift[kPanelRows][16];  // kShifted
};

// The first n blocks of the chunk at `data`, of row `r`.
template <class Type>
ASSAY_ALWAYS_INLINE void read_panel_row(const uint8_t* data, int64_t n, int64_t r,
                                        PanelChunk& rows) {
  Chunk chunk;
  read_chunk<Type, 8>(data, n, chunk);
#pragma GCC unroll 2
  for (int64_t i = 0; i < 2; ++i) {
    store8(rows.scale[r] + 8 * i, chunk.scale[i]);
    if constexpr (Type::kShifted) store8(rows.shift[r] + 8 * i, chunk.shift[i]);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    if (p < n) store_bytes(rows.codes[p][r], chunk.codes[p]);
  }
}

// [sixteen rows, sixteen halves] of a chunk from block `j` to their places.
ASSAY_ALWAYS_INLINE void sort_numbers(const float (&rows)[kPanelRows][16], int64_t j,
                                      int64_t padded, float* out) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < 16; i += 8) {
    uint8_t* places[8];
    for (int64_t k = 0; k < 8; ++k) {
      const int64_t place = (i + k) * (padded / 8) + j / 8;
      places[k] = reinterpret_cast<uint8_t*>(out + place * kPanelRows);
    }
    transpose_rows(reinterpret_cast<const uint8_t*>(rows[0] + i), sizeof(rows[0]), places);
  }
}

// Sixteen rows `stride` bytes apart, or the `n_rows` that there are.
template <class Type>
void fill_panel(const uint8_t* row, size_t stride, int64_t n_rows, int64_t columns,
                const RowPanel panel) {
  const int64_t blocks = columns / 32;
  const int64_t padded = padded_blocks(columns);
  PanelChunk rows = {};
  for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>) {
    const int64_t n = blocks - j < 8 ? blocks - j : 8;
    for (int64_t r = 0; r < n_rows; ++r) {
      const uint8_t* const data = row + static_cast<size_t>(r) * stride;
      for (int64_t line = 0; line < kChunkBytes<Type>; line += 64) {
        __builtin_prefetch(data + kPanelRows * stride + static_cast<size_t>(line));
      }
      if (n == 8) {
        read_panel_row<Type>(data, 8, r, rows);
      } else if constexpr (blocks_of_chunk<Type>() > 1) {
        const LastChunk<Type> last(data, n);
        read_panel_row<Type>(last.bytes, n, r, rows);
      }
    }
    for (int64_t p = 0; p < n; ++p) {
      uint8_t* places[8];
      for (int64_t k = 0; k < 8; ++k) {
        const int64_t place = sorted_place(j + p, k / 4, padded) * kPanelRows * kHalfBytes;
        places[k] = panel.codes + place + k % 4 * 4 * kPanelRows;
      }
      transpose_rows(rows.codes[p][0], sizeof(rows.codes[p][0]), places);
    }
    sort_numbers(rows.scale, j, padded, panel.scale);
    if constexpr (Type::kShifted) sort_numbers(rows.shift, j, padded, panel.shift);
  }
}

// The quantised rows of n tokens; n * quantized_row_bytes() bytes in all.
struct TokenTile {
  const int8_t* codes;   // [blocks * 2, 4, n, 4]
  const float* scale;    // [blocks * 2, n]
  const float* sum;      // [blocks * 2, n]
  const int32_t* total;  // [blocks * 2, n]
};

inline TokenTile token_tile(const uint8_t* bytes, int64_t n, int64_t columns) {
  const int64_t halves = n * padded_blocks(columns) * 2;
  const auto* scale = reinterpret_cast<const float*>(bytes + halves * kHalfBytes);
  return {reinterpret_cast<const int8_t*>(bytes), scale, scale + halves,
          reinterpret_cast<const int32_t*>(scale + 2 * halves)};
}

// The rows x[n, columns], quantised, as a tile at `out`.
inline void quantize_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
  constexpr int64_t kChunk = 256;  // elements that are quantised together
  const int64_t padded = padded_blocks(columns);
  auto* const scale = reinterpret_cast<float*>(out + n * padded * 2 * kHalfBytes);
  float* const sum = scale + n * padded * 2;
  auto* const total = reinterpret_cast<int32_t*>(sum + n * padded * 2);
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t first = 0; first < columns; first += kChunk) {
      const int64_t count = columns - first < kChunk ? columns - first : kChunk;
      alignas(64) uint8_t bytes[kChunk / 32 * kQuantizedBlockBytes];
      quantize_row(x + t * columns + first, count, bytes);
      const QuantizedRow row = quantized_row(bytes, count);
      for (int64_t i = 0; i < count / 16; ++i) {
        const int64_t place = sorted_place(first / 32 + i / 2, i % 2, padded) * n;
        const int64_t from = half_place(i / 2) + i % 2 * 4;
        spread_codes(row.codes + i * kHalfBytes, t, n, out + place * kHalfBytes);
        scale[place + t] = row.scale[from];
        sum[place + t] = row.sum[from];
        total[place + t] = row.total[from];
      }
    }
  }
}

// One lane, halves of blocks [place, end), of sixteen rows with kTokens tokens: out[kTokens, 16].
template <class Traits, int64_t kTokens>
void multiply_lane(const RowPanel& panel, const TokenTile& x, int64_t place, int64_t end,
                   float* out) {
  F32x16 lanes[kTokens];
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) lanes[t] = zero();
  for (; place < end; ++place) {
    const uint8_t* codes = panel.codes + place * kHalfBytes * kPanelRows;
    const int8_t* x_codes = x.codes + place * kHalfBytes * kTokens;
    I32x16 sums[kTokens];
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      sums[t] = splat_int(-Traits::kOffset * x.total[place * kTokens + t]);
    }
#pragma GCC unroll 4
    for (int64_t quad = 0; quad < 4; ++quad) {
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        sums[t] = add_row_products<Traits::kWide>(sums[t], codes + quad * 4 * kPanelRows,
                                                  x_codes + 4 * (quad * kTokens + t));
      }
    }
    const F32x16 scale = load(panel.scale + place * kPanelRows);
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      const F32x16 both = mul(scale, splat(x.scale[place * kTokens + t]));
      lanes[t] = fma(to_float(sums[t]), both, lanes[t]);
    }
    if constexpr (Traits::kShifted) {
      const F32x16 shift = load(panel.shift + place * kPanelRows);
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        lanes[t] = fma(shift, splat(x.sum[place * kTokens + t]), lanes[t]);
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) store(out + t * kPanelRows, lanes[t]);
}

// The sums over the lanes of partial[kLanes, kTokens, 16]; `n_rows` of sixteen rows are stored,
// `stride` floats from token to token.
template <int64_t kTokens, int64_t kLanes>
void store_lane_sums(const float* partial, int64_t n_rows, float* out, int64_t stride) {
  constexpr int64_t kLane = kTokens * kPanelRows;
  for (int64_t t = 0; t < kTokens; ++t) {
    const float* at = partial + t * kPanelRows;
    const auto eighth = [&](int64_t lane) {
      const F32x16 first = load(at + lane * kLane);
      if constexpr (kLanes == 8) return first;
      return add(first, load(at + (lane + 8) * kLane));
    };
    const auto pair = [&](int64_t lane) { return add(eighth(lane), eighth(lane + 4)); };
    const F32x16 sums = add(add(pair(0), pair(2)), add(pair(1), pair(3)));
    if (n_rows == kPanelRows) {
      store(out + t * stride, sums);
    } else {
      store_partial(out + t * stride, n_rows, sums);
    }
  }
}

// Sixteen rows with the kTokens tokens at `x`; `n_rows` of them are stored, `stride` floats from
// token to token. partial[16, kTokens, 16].
template <class Traits, int64_t kTokens>
void multiply_tile(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                   float* partial, float* out, int64_t stride) {
  const TokenTile tile = token_tile(x, kTokens, columns);
  const int64_t blocks = columns / 32;
  const int64_t padded = padded_blocks(columns);
  constexpr int64_t kLane = kTokens * kPanelRows;
  for (int64_t p = 0; p < 8; ++p) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t place = sorted_place(p, half, padded);
      multiply_lane<Traits, kTokens>(panel, tile, place, place + (blocks - p + 7) / 8,
                                     partial + (half_place(p) + 4 * half) * kLane);
    }
  }
  store_lane_sums<kTokens, 16>(partial, n_rows, out, stride);
}

// As multiply_tile for n_tokens <= kTokens.
template <class Traits, int64_t kTokens>
void multiply_tokens(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                     int64_t n_tokens, float* partial, float* out, int64_t stride) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) {
      return multiply_tile<Traits, kTokens>(panel, n_rows, columns, x, partial, out, stride);
    }
    multiply_tokens<Traits, kTokens - 1>(panel, n_rows, columns, x, n_tokens, partial, out, stride);
  }
}

}  // namespace assay::ASSAY_ISA
