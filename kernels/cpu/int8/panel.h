#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8/quantize.h"
#include "kernels/cpu/int8/simd.h"
#include "kernels/cpu/int8/weights.h"

// Products of sixteen rows with several tokens at once.
//
// Both sides are sorted so that the innermost loop reads them one after the other: block j of a row
// belongs to lane j % 8 of its sum (matmul.h), and the blocks of a lane stand together; within a
// block, four codes of the first row (token), four of the second, and so on.
namespace assay::ASSAY_ISA {

// The place of block j among all of a row of `blocks`, rounded up to a multiple of 8.
inline int64_t block_place(int64_t j, int64_t blocks) {
  return j % 8 * (blocks / 8) + j / 8;
}

constexpr int64_t kPanelRows = 16;

struct RowPanel {
  uint8_t* codes;       // [blocks, 8, 16, 4]
  float* scale;         // [blocks, 16]
  float* shift;         // [blocks, 16]; kShifted
  int32_t* half_scale;  // [blocks, 2, 16]; kHalves
  int32_t* half_shift;  // [blocks, 2, 16]; both
};

inline int64_t panel_floats(int64_t columns) {
  return kPanelRows * padded_blocks(columns) * (32 / 4 + 1 + 1 + 2 + 2);
}

inline RowPanel row_panel(float* scratch, int64_t columns) {
  const int64_t lanes = kPanelRows * padded_blocks(columns);
  float* const scale = scratch + lanes * 8;
  auto* const half_scale = reinterpret_cast<int32_t*>(scale + 2 * lanes);
  return {reinterpret_cast<uint8_t*>(scratch), scale, scale + lanes, half_scale,
          half_scale + 2 * lanes};
}

// Row `r` of a panel.
template <class Type>
void fill_panel_row(const uint8_t* row, int64_t columns, int64_t r, const RowPanel& panel) {
  const int64_t blocks = columns / 32;
  const int64_t padded = padded_blocks(columns);
  for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>) {
    const int64_t n = blocks - j < 8 ? blocks - j : 8;
    Chunk chunk;
    read_chunk<Type>(row, n, chunk);
    float scale[8];
    float shift[8];
    int32_t half_scale[16];
    int32_t half_shift[16];
    store8(scale, chunk.scale);
    if constexpr (Type::kShifted) store8(shift, chunk.shift);
    if constexpr (Type::kHalves) store_halves(half_scale, chunk.half_scale);
    if constexpr (Type::kHalves && Type::kShifted) store_halves(half_shift, chunk.half_shift);
    for (int64_t p = 0; p < n; ++p) {
      const int64_t place = block_place(j + p, padded);
      uint8_t codes[32];
      store_bytes(codes, chunk.codes[p]);
      uint8_t* out = panel.codes + place * 32 * kPanelRows + 4 * r;
#pragma GCC unroll 8
      for (int64_t quad = 0; quad < 8; ++quad) {
        std::memcpy(out + quad * 4 * kPanelRows, codes + 4 * quad, 4);
      }
      const int64_t at = place * kPanelRows + r;
      const int64_t half = half_place(p);
      panel.scale[at] = scale[p];
      if constexpr (Type::kShifted) panel.shift[at] = shift[p];
      if constexpr (Type::kHalves) {
        panel.half_scale[at + place * kPanelRows] = half_scale[half];
        panel.half_scale[at + (place + 1) * kPanelRows] = half_scale[half + 4];
      }
      if constexpr (Type::kHalves && Type::kShifted) {
        panel.half_shift[at + place * kPanelRows] = half_shift[half];
        panel.half_shift[at + (place + 1) * kPanelRows] = half_shift[half + 4];
      }
    }
  }
}

// The quantised rows of n tokens; n * quantized_row_bytes() bytes in all.
struct TokenTile {
  const int8_t* codes;    // [blocks, 8, n, 4]
  const float* scale;     // [blocks, n]
  const float* sum;       // [blocks, n]
  const int32_t* total;   // [blocks, n]
  const int32_t* halves;  // [blocks, 2, n]
};

inline TokenTile token_tile(const uint8_t* bytes, int64_t n, int64_t columns) {
  const int64_t lanes = n * padded_blocks(columns);
  const auto* scale = reinterpret_cast<const float*>(bytes + lanes * 32);
  const auto* total = reinterpret_cast<const int32_t*>(scale + 2 * lanes);
  return {reinterpret_cast<const int8_t*>(bytes), scale, scale + lanes, total, total + lanes};
}

// The rows x[n, columns], quantised, as a tile at `out`.
inline void quantize_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
  constexpr int64_t kChunk = 256;  // elements that are quantised together
  const int64_t padded = padded_blocks(columns);
  auto* const scale = reinterpret_cast<float*>(out + n * padded * 32);
  float* const sum = scale + n * padded;
  auto* const total = reinterpret_cast<int32_t*>(sum + n * padded);
  int32_t* const halves = total + n * padded;
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t first = 0; first < columns; first += kChunk) {
      const int64_t count = columns - first < kChunk ? columns - first : kChunk;
      alignas(64) uint8_t bytes[kChunk / 32 * kQuantizedBlockBytes];
      quantize_row(x + t * columns + first, count, bytes);
      const QuantizedRow row = quantized_row(bytes, count);
      for (int64_t j = 0; j < count / 32; ++j) {
        const int64_t place = block_place(first / 32 + j, padded);
        uint8_t* codes = out + place * 32 * n + 4 * t;
        for (int64_t quad = 0; quad < 8; ++quad) {
          std::memcpy(codes + quad * 4 * n, row.codes + 32 * j + 4 * quad, 4);
        }
        scale[place * n + t] = row.scale[j];
        sum[place * n + t] = row.sum[j];
        total[place * n + t] = row.total[j];
        halves[2 * place * n + t] = row.halves[half_place(j)];
        halves[(2 * place + 1) * n + t] = row.halves[half_place(j) + 4];
      }
    }
  }
}

// Adds quads [first, last) of a block's products.
template <bool kWide, int64_t kTokens>
ASSAY_ALWAYS_INLINE void add_quads(const uint8_t* codes, const int8_t* x, int64_t first,
                                   int64_t last, I32x16 (&sums)[kTokens]) {
#pragma GCC unroll 8
  for (int64_t quad = first; quad < last; ++quad) {
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      sums[t] = add_row_products<kWide>(sums[t], codes + quad * 4 * kPanelRows,
                                        x + 4 * (quad * kTokens + t));
    }
  }
}

// One lane, blocks [place, end), of sixteen rows with kTokens tokens: out[kTokens, 16].
template <class Type, int64_t kTokens>
void multiply_lane(const RowPanel& panel, const TokenTile& x, int64_t place, int64_t end,
                   float* out) {
  F32x16 lanes[kTokens];
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) lanes[t] = zero();
  for (; place < end; ++place) {
    const uint8_t* codes = panel.codes + place * 32 * kPanelRows;
    const int8_t* x_codes = x.codes + place * 32 * kTokens;
    const int32_t* x_halves = x.halves + 2 * place * kTokens;
    I32x16 sums[kTokens];
    if constexpr (Type::kHalves) {
      I32x16 halves[kTokens];
#pragma GCC unroll 2
      for (int64_t h = 0; h < 2; ++h) {
#pragma GCC unroll 16
        for (int64_t t = 0; t < kTokens; ++t) {
          halves[t] = splat_int(-Type::kOffset * x_halves[h * kTokens + t]);
        }
        add_quads<Type::kWide>(codes, x_codes, 4 * h, 4 * h + 4, halves);
        const I32x16 scale = load_int_lanes(panel.half_scale + (2 * place + h) * kPanelRows);
#pragma GCC unroll 16
        for (int64_t t = 0; t < kTokens; ++t) {
          const I32x16 scaled = mul(halves[t], scale);
          sums[t] = h == 0 ? scaled : add(sums[t], scaled);
        }
      }
    } else {
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        sums[t] = splat_int(-Type::kOffset * x.total[place * kTokens + t]);
      }
      add_quads<Type::kWide>(codes, x_codes, 0, 8, sums);
    }
    const F32x16 scale = load(panel.scale + place * kPanelRows);
    const float* x_scale = x.scale + place * kTokens;
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      lanes[t] = fma(to_float(sums[t]), mul(scale, splat(x_scale[t])), lanes[t]);
    }
    if constexpr (Type::kShifted) {
      const F32x16 shift = load(panel.shift + place * kPanelRows);
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        if constexpr (Type::kHalves) {
          const int32_t* shifts = panel.half_shift + 2 * place * kPanelRows;
          const I32x16 whole =
              add(mul(load_int_lanes(shifts), splat_int(x_halves[t])),
                  mul(load_int_lanes(shifts + kPanelRows), splat_int(x_halves[kTokens + t])));
          lanes[t] = fma(to_float(whole), mul(shift, splat(x_scale[t])), lanes[t]);
        } else {
          lanes[t] = fma(shift, splat(x.sum[place * kTokens + t]), lanes[t]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) store(out + t * kPanelRows, lanes[t]);
}

// Sixteen rows with the kTokens tokens at `x`; `n_rows` of them are stored, `stride` floats from
// token to token. partial[8, kTokens, 16].
template <class Type, int64_t kTokens>
void multiply_tile(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                   float* partial, float* out, int64_t stride) {
  const TokenTile tile = token_tile(x, kTokens, columns);
  const int64_t blocks = columns / 32;
  const int64_t lane_blocks = padded_blocks(columns) / 8;
  constexpr int64_t kLane = kTokens * kPanelRows;
  for (int64_t lane = 0; lane < 8; ++lane) {
    const int64_t place = lane * lane_blocks;
    multiply_lane<Type, kTokens>(panel, tile, place, place + (blocks - lane + 7) / 8,
                                 partial + lane * kLane);
  }
  for (int64_t t = 0; t < kTokens; ++t) {
    const float* at = partial + t * kPanelRows;
    const auto pair = [&](int64_t lane) {
      return add(load(at + lane * kLane), load(at + (lane + 4) * kLane));
    };
    const F32x16 sums = add(add(pair(0), pair(2)), add(pair(1), pair(3)));
    if (n_rows == kPanelRows) {
      store(out + t * stride, sums);
    } else {
      store_partial(out + t * stride, n_rows, sums);
    }
  }
}

// As multiply_tile for n_tokens <= kTokens.
template <class Type, int64_t kTokens>
void multiply_tokens(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                     int64_t n_tokens, float* partial, float* out, int64_t stride) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) {
      return multiply_tile<Type, kTokens>(panel, n_rows, columns, x, partial, out, stride);
    }
    multiply_tokens<Type, kTokens - 1>(panel, n_rows, columns, x, n_tokens, partial, out, stride);
  }
}

}  // namespace assay::ASSAY_ISA
