#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/functions.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

// Two matrices of rows that are multiplied with each other, every row of `w` with every row of
// `x`, and where the product of row r and token t goes: out[t * out_stride + r].
struct Panel {
  const float* w;
  int64_t w_stride;
  const float* x;
  int64_t columns;  // also the stride of x
  float* out;
  int64_t out_stride;
};

template <int64_t kRows, int64_t kTokens, class Load>
ASSAY_ALWAYS_INLINE void accumulate_tile(const Panel& p, int64_t column, Load load_lanes,
                                         F32x16 (&sums)[kTokens][kRows]) {
  F32x16 w[kRows];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) w[r] = load_lanes(p.w + r * p.w_stride + column);
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
    const F32x16 x = load_lanes(p.x + t * p.columns + column);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) sums[t][r] = fma(w[r], x, sums[t][r]);
  }
}

// kRows x kTokens products, each in the order of dot_rows; their sums stay in registers.
template <int64_t kRows, int64_t kTokens>
void multiply_tile(const Panel& p) {
  F32x16 sums[kTokens][kRows];
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) sums[t][r] = zero();
  }
  int64_t column = 0;
  for (; column + 16 <= p.columns; column += 16) {
    accumulate_tile<kRows, kTokens>(
        p, column, [](const float* a) { return load(a); }, sums);
  }
  if (const int64_t left = p.columns - column; left > 0) {
    const auto load_left = [left](const float* a) { return load_partial(a, left); };
    accumulate_tile<kRows, kTokens>(p, column, load_left, sums);
  }
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
    float* out = p.out + t * p.out_stride;
    if constexpr (kRows == 4) {
      store_sums(out, sums[t][0], sums[t][1], sums[t][2], sums[t][3]);
    } else {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) out[r] = sum(sums[t][r]);
    }
  }
}

// `n_rows` rows of w with the kTokens rows of x.
template <int64_t kTokens>
void multiply_token_tile(Panel p, int64_t n_rows) {
  for (; n_rows >= kTileRows; n_rows -= kTileRows) {
    multiply_tile<kTileRows, kTokens>(p);
    p.w += kTileRows * p.w_stride;
    p.out += kTileRows;
  }
  for (; n_rows > 0; --n_rows, p.w += p.w_stride, ++p.out) multiply_tile<1, kTokens>(p);
}

// As multiply_token_tile for n_tokens <= kTokens.
template <int64_t kTokens>
void multiply_tokens(const Panel& p, int64_t n_rows, int64_t n_tokens) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) return multiply_token_tile<kTokens>(p, n_rows);
    multiply_tokens<kTokens - 1>(p, n_rows, n_tokens);
  }
}

// x[count], or a copy of it in `scratch` whose loads do not cross cache lines. That is half again
// as fast with AVX2; AVX-512 loads less for each product and loses a tenth to the copying.
inline const float* aligned(const float* x, int64_t count, float* scratch) {
  constexpr uintptr_t kLine = 64;
  if (!kAlignTokens || reinterpret_cast<uintptr_t>(x) % kLine == 0) return x;
  std::memcpy(scratch, x, static_cast<size_t>(count) * sizeof(float));
  return scratch;
}

// Rows that are dequantised together before they meet the tokens: they stay in the second-level
// cache while all tokens pass by.
inline int64_t rows_per_panel(int64_t columns) {
  constexpr int64_t kPanelFloats = int64_t{64} * 1024;
  constexpr int64_t kMaxRows = 64;
  const int64_t fitting = kPanelFloats / columns / 4 * 4;
  return fitting < 4 ? 4 : fitting > kMaxRows ? kMaxRows : fitting;
}

// One cache line more than a row takes: with a power of two, all rows of a tile and of its tokens
// would meet in the same few places of the first-level cache.
inline int64_t panel_stride(int64_t columns) {
  return (columns + 15) / 16 * 16 + 16;
}

// Scratch holds a panel of rows, then a tile of tokens.
inline int64_t panel_floats(int64_t columns) {
  return rows_per_panel(columns) * panel_stride(columns);
}

inline int64_t matmul_scratch(const MatmulCall& m) {
  return m.n_tokens == 1 ? 0 : panel_floats(m.w.columns) + kTileTokens * m.w.columns;
}

// `n_rows` rows, at `panel`, with all tokens.
inline void multiply_panel(const MatmulCall& m, const float* panel, int64_t first_row,
                           int64_t n_rows, float* tile) {
  const int64_t columns = m.w.columns;
  for (int64_t t = 0; t < m.n_tokens; t += kTileTokens) {
    const int64_t n = m.n_tokens - t < kTileTokens ? m.n_tokens - t : kTileTokens;
    const float* x = aligned(m.x + t * columns, n * columns, tile);
    const Panel p = {panel,   panel_stride(columns), x, columns, m.out + t * m.w.rows + first_row,
                     m.w.rows};
    multiply_tokens<kTileTokens>(p, n_rows, n);
  }
}

inline void matmul_rows(const MatmulCall& m, int64_t first, int64_t last, float* scratch) {
  const RowFunctions& functions = row_functions(m.w.type);
  const int64_t columns = m.w.columns;
  const size_t stride = row_bytes(m.w.type, columns);
  const auto* rows = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * stride;
  if (m.n_tokens == 1) {
    functions.multiply(rows, stride, last - first, columns, m.x, m.out + first);
  } else {
    const int64_t at_once = rows_per_panel(columns);
    for (int64_t row = first; row < last; row += at_once) {
      const int64_t n_rows = last - row < at_once ? last - row : at_once;
      for (int64_t r = 0; r < n_rows; ++r, rows += stride) {
        functions.read(rows, columns, scratch + r * panel_stride(columns));
      }
      multiply_panel(m, scratch, row, n_rows, scratch + panel_floats(columns));
    }
  }
  if (m.bias == nullptr) return;
  for (int64_t t = 0; t < m.n_tokens; ++t) {
    float* out = m.out + t * m.w.rows + first;
    add(out, m.bias + first, last - first, out);
  }
}

}  // namespace assay::ASSAY_ISA
