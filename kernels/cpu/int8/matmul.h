#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8/functions.h"
#include "kernels/cpu/int8/quantize.h"
#include "kernels/cpu/int8/simd.h"
#include "kernels/cpu/int8/weights.h"
#include "kernels/tensor_type.h"

// Products of quantised weights with quantised activations.
//
// The order of every sum: the products within a block of 32 are whole numbers, exact in any order.
// Block j then goes into lane j % 8 of eight float lanes, by one fused multiply-add for its scale
// and, where the type has shifts, one more; the lanes are summed by the tree of sum(F32x8). With
// one token a row's lanes lie in one register; with many, sixteen rows do, and lane after lane is
// computed.
namespace assay::ASSAY_ISA {

// One row with one token.
template <class Type>
ASSAY_ALWAYS_INLINE float dot_row(const uint8_t* row, int64_t columns, const cpu::QuantizedRow& x) {
  F32x8 lanes = zero8();
  const int64_t blocks = columns / 32;
  for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kChunkBytes<Type>; line += 64) {
      __builtin_prefetch(row + 4096 + line);
    }
    Chunk chunk;
    read_chunk<Type>(row, blocks - j, chunk);
    I32x8 dots[8];
#pragma GCC unroll 8
    for (int64_t p = 0; p < 8; ++p) {
      dots[p] = dot32<Type::kWide>(chunk.codes[p], x.codes + 32 * (j + p));
    }
    I32x8 first;
    I32x8 last;
    half_sums(dots, first, last);
    const I32x8 x_first = load_ints(x.halves + 2 * j);
    const I32x8 x_last = load_ints(x.halves + 2 * j + 8);
    if constexpr (Type::kOffset != 0) {
      constexpr int kShift = __builtin_ctz(Type::kOffset);
      first = sub(first, shift_left<kShift>(x_first));
      last = sub(last, shift_left<kShift>(x_last));
    }
    if constexpr (Type::kHalves) {
      first = mul(first, chunk.half_scale[0]);
      last = mul(last, chunk.half_scale[1]);
    }
    const F32x8 x_scale = load8(x.scale + j);
    lanes = fma(to_float(whole_sums(first, last)), mul(chunk.scale, x_scale), lanes);
    if constexpr (Type::kShifted && Type::kHalves) {
      const I32x8 shifts =
          whole_sums(mul(x_first, chunk.half_shift[0]), mul(x_last, chunk.half_shift[1]));
      lanes = fma(to_float(shifts), mul(chunk.shift, x_scale), lanes);
    } else if constexpr (Type::kShifted) {
      lanes = fma(chunk.shift, load8(x.sum + j), lanes);
    }
  }
  return sum(lanes);
}

constexpr int64_t kPanelRows = 16;

// Sixteen rows with their codes side by side: four of row 0, four of row 1, …; and their scales as
// lanes, a block at a time. What a type has not got takes no room in the first-level cache, since
// nobody touches it.
struct RowPanel {
  uint8_t* codes;       // [blocks, 8, 16, 4]
  float* scale;         // [blocks, 16]
  float* shift;         // [blocks, 16]
  int32_t* half_scale;  // [blocks, 2, 16]
  int32_t* half_shift;  // [blocks, 2, 16]
};

inline int64_t panel_floats(int64_t columns) {
  const int64_t blocks = padded_blocks(columns);
  return kPanelRows * blocks * (32 / 4 + 1 + 1 + 2 + 2);
}

inline RowPanel row_panel(float* scratch, int64_t columns) {
  const int64_t lanes = kPanelRows * padded_blocks(columns);
  float* const scale = scratch + lanes * 8;
  auto* const half_scale = reinterpret_cast<int32_t*>(scale + 2 * lanes);
  return {reinterpret_cast<uint8_t*>(scratch), scale, scale + lanes, half_scale,
          half_scale + 2 * lanes};
}

// The lanes of a chunk's halves, in the order of half_sums, to where row r has them in a panel.
ASSAY_ALWAYS_INLINE void spread_halves(const I32x8 (&halves)[2], int64_t n, int32_t* out) {
  int32_t values[16];
  store_ints(values, halves[0]);
  store_ints(values + 8, halves[1]);
  for (int64_t p = 0; p < n; ++p) {
    out[(2 * p) * kPanelRows] = values[p / 4 * 8 + p % 4];
    out[(2 * p + 1) * kPanelRows] = values[p / 4 * 8 + p % 4 + 4];
  }
}

// Row `r` of a panel.
template <class Type>
void fill_panel_row(const uint8_t* row, int64_t columns, int64_t r, const RowPanel& panel) {
  const int64_t blocks = columns / 32;
  for (int64_t j = 0; j < blocks; j += 8, row += kChunkBytes<Type>) {
    const int64_t n = blocks - j < 8 ? blocks - j : 8;
    Chunk chunk;
    read_chunk<Type>(row, n, chunk);
    float scale[8];
    float shift[8];
    store8(scale, chunk.scale);
    if constexpr (Type::kShifted) store8(shift, chunk.shift);
    for (int64_t p = 0; p < n; ++p) {
      uint8_t codes[32];
      store_bytes(codes, chunk.codes[p]);
      uint8_t* out = panel.codes + (j + p) * 32 * kPanelRows + 4 * r;
#pragma GCC unroll 8
      for (int64_t quad = 0; quad < 8; ++quad) {
        std::memcpy(out + quad * 4 * kPanelRows, codes + 4 * quad, 4);
      }
      panel.scale[(j + p) * kPanelRows + r] = scale[p];
      if constexpr (Type::kShifted) panel.shift[(j + p) * kPanelRows + r] = shift[p];
    }
    const int64_t at = 2 * j * kPanelRows + r;
    if constexpr (Type::kHalves) spread_halves(chunk.half_scale, n, panel.half_scale + at);
    if constexpr (Type::kHalves && Type::kShifted) {
      spread_halves(chunk.half_shift, n, panel.half_shift + at);
    }
  }
}

// A block of a panel with a half or the whole of a block of each token.
template <bool kWide, int64_t kTokens>
ASSAY_ALWAYS_INLINE void add_quads(const uint8_t* codes, int64_t first, int64_t last,
                                   const int8_t* (&x)[kTokens], I32x16 (&sums)[kTokens]) {
#pragma GCC unroll 8
  for (int64_t quad = first; quad < last; ++quad) {
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      sums[t] = add_row_products<kWide>(sums[t], codes + quad * 4 * kPanelRows, x[t] + 4 * quad);
    }
  }
}

// One lane of sixteen rows with kTokens tokens, to out[kTokens, 16].
template <class Type, int64_t kTokens>
void multiply_lane(const RowPanel& panel, int64_t lane, int64_t blocks,
                   const cpu::QuantizedRow (&x)[kTokens], float* out) {
  F32x16 lanes[kTokens];
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) lanes[t] = zero();
  for (int64_t j = lane; j < blocks; j += 8) {
    const uint8_t* codes = panel.codes + j * 32 * kPanelRows;
    const int8_t* x_codes[kTokens];
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) x_codes[t] = x[t].codes + 32 * j;
    const int64_t half = j / 4 * 8 + j % 4;
    I32x16 sums[kTokens];
    if constexpr (Type::kHalves) {
      I32x16 halves[kTokens];
#pragma GCC unroll 2
      for (int64_t h = 0; h < 2; ++h) {
#pragma GCC unroll 16
        for (int64_t t = 0; t < kTokens; ++t) {
          halves[t] = splat_int(-Type::kOffset * x[t].halves[half + 4 * h]);
        }
        add_quads<Type::kWide>(codes, 4 * h, 4 * h + 4, x_codes, halves);
        const I32x16 scale = load_int_lanes(panel.half_scale + (2 * j + h) * kPanelRows);
#pragma GCC unroll 16
        for (int64_t t = 0; t < kTokens; ++t) {
          const I32x16 scaled = mul(halves[t], scale);
          sums[t] = h == 0 ? scaled : add(sums[t], scaled);
        }
      }
    } else {
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) sums[t] = splat_int(-Type::kOffset * x[t].total[j]);
      add_quads<Type::kWide>(codes, 0, 8, x_codes, sums);
    }
    const F32x16 scale = load(panel.scale + j * kPanelRows);
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTokens; ++t) {
      lanes[t] = fma(to_float(sums[t]), mul(scale, splat(x[t].scale[j])), lanes[t]);
    }
    if constexpr (Type::kShifted) {
      const F32x16 shift = load(panel.shift + j * kPanelRows);
#pragma GCC unroll 16
      for (int64_t t = 0; t < kTokens; ++t) {
        if constexpr (Type::kHalves) {
          const int32_t* shifts = panel.half_shift + 2 * j * kPanelRows;
          const I32x16 whole =
              add(mul(load_int_lanes(shifts), splat_int(x[t].halves[half])),
                  mul(load_int_lanes(shifts + kPanelRows), splat_int(x[t].halves[half + 4])));
          lanes[t] = fma(to_float(whole), mul(shift, splat(x[t].scale[j])), lanes[t]);
        } else {
          lanes[t] = fma(shift, splat(x[t].sum[j]), lanes[t]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t t = 0; t < kTokens; ++t) store(out + t * kPanelRows, lanes[t]);
}

// Sixteen rows with kTokens tokens; `n_rows` of them are stored, `stride` floats from token to
// token. partial[8, kTokens, 16].
template <class Type, int64_t kTokens>
void multiply_panel_tile(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                         float* partial, float* out, int64_t stride) {
  cpu::QuantizedRow rows[kTokens];
  for (int64_t t = 0; t < kTokens; ++t) {
    rows[t] = quantized_row(x + t * quantized_row_bytes(columns), columns);
  }
  constexpr int64_t kLane = kTokens * kPanelRows;
  for (int64_t lane = 0; lane < 8; ++lane) {
    multiply_lane<Type, kTokens>(panel, lane, columns / 32, rows, partial + lane * kLane);
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

template <class Type, int64_t kTokens>
void multiply_panel_tokens(const RowPanel& panel, int64_t n_rows, int64_t columns, const uint8_t* x,
                           int64_t n_tokens, float* partial, float* out, int64_t stride) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) {
      multiply_panel_tile<Type, kTokens>(panel, n_rows, columns, x, partial, out, stride);
    } else {
      multiply_panel_tokens<Type, kTokens - 1>(panel, n_rows, columns, x, n_tokens, partial, out,
                                               stride);
    }
  }
}

// Below this many tokens, sorting sixteen rows into a panel costs more than it gives.
constexpr int64_t kTokensWorthPanel = 4;

template <class Type>
void int8_rows(const cpu::Matmul& m, const uint8_t* x, int64_t first, int64_t last,
               float* scratch) {
  const int64_t columns = m.w.columns;
  const int64_t x_bytes = quantized_row_bytes(columns);
  const size_t row_stride = row_bytes(m.w.type, columns);
  const auto* row = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * row_stride;
  if (m.n_tokens < kTokensWorthPanel) {
    for (int64_t r = first; r < last; ++r, row += row_stride) {
      for (int64_t t = 0; t < m.n_tokens; ++t) {
        m.out[t * m.w.rows + r] =
            dot_row<Type>(row, columns, quantized_row(x + t * x_bytes, columns));
      }
    }
    return;
  }
  constexpr int64_t kTile = Type::kHalves ? kInt8HalvesTokens : kInt8Tokens;
  const RowPanel panel = row_panel(scratch, columns);
  float* const partial = scratch + panel_floats(columns);
  for (int64_t r = first; r < last; r += kPanelRows) {
    const int64_t n_rows = last - r < kPanelRows ? last - r : kPanelRows;
    for (int64_t i = 0; i < n_rows; ++i, row += row_stride) {
      fill_panel_row<Type>(row, columns, i, panel);
    }
    for (int64_t t = 0; t < m.n_tokens; t += kTile) {
      const int64_t n = m.n_tokens - t < kTile ? m.n_tokens - t : kTile;
      multiply_panel_tokens<Type, kTile>(panel, n_rows, columns, x + t * x_bytes, n, partial,
                                         m.out + t * m.w.rows + r, m.w.rows);
    }
  }
}

inline int64_t int8_scratch(const cpu::Matmul& m) {
  if (m.n_tokens < kTokensWorthPanel) return 0;
  return panel_floats(m.w.columns) + 8 * kInt8Tokens * kPanelRows;
}

inline void int8_matmul_rows(const cpu::Matmul& m, const uint8_t* x, int64_t first, int64_t last,
                             float* scratch) {
  switch (m.w.type) {
    case TensorType::kQ4_0:
      return int8_rows<Int8Q4_0>(m, x, first, last, scratch);
    case TensorType::kQ4_1:
      return int8_rows<Int8Q4_1>(m, x, first, last, scratch);
    case TensorType::kQ5_0:
      return int8_rows<Int8Q5_0>(m, x, first, last, scratch);
    case TensorType::kQ5_1:
      return int8_rows<Int8Q5_1>(m, x, first, last, scratch);
    case TensorType::kQ8_0:
      return int8_rows<Int8Q8_0>(m, x, first, last, scratch);
    case TensorType::kQ2_K:
      return int8_rows<Int8Q2_K>(m, x, first, last, scratch);
    case TensorType::kQ3_K:
      return int8_rows<Int8Q3_K>(m, x, first, last, scratch);
    case TensorType::kQ4_K:
      return int8_rows<Int8Q4_K>(m, x, first, last, scratch);
    case TensorType::kQ5_K:
      return int8_rows<Int8Q5_K>(m, x, first, last, scratch);
    case TensorType::kQ6_K:
      return int8_rows<Int8Q6_K>(m, x, first, last, scratch);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      break;  // not stored in blocks: not asked for
  }
}

}  // namespace assay::ASSAY_ISA
