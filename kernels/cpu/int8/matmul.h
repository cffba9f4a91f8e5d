#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8/functions.h"
#include "kernels/cpu/int8/panel.h"
#include "kernels/cpu/int8/quantize.h"
#include "kernels/cpu/int8/simd.h"
#include "kernels/cpu/int8/weights.h"
#include "kernels/tensor_type.h"

// Products of quantised weights with quantised activations.
//
// The order of every sum: the products within a block of 32 are whole numbers, exact in any order.
// Block j then goes into lane j % 8 of eight float lanes, by one fused multiply-add for its scale
// and, where the type has shifts, one more; the lanes are summed by the tree of sum(F32x8). With
// one token a row's lanes lie in one register; with many, sixteen rows do (panel.h), and one lane
// is computed after the other.
namespace assay::ASSAY_ISA {

// One row with one token.
template <class Type>
ASSAY_ALWAYS_INLINE float dot_row(const uint8_t* row, int64_t columns, const QuantizedRow& x) {
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

// Below this many tokens, sorting sixteen rows into a panel costs more than it gives.
constexpr int64_t kTokensWorthPanel = 4;

// How many tokens meet a panel at once.
template <class Type>
constexpr int64_t kTile = Type::kHalves ? kInt8HalvesTokens : kInt8Tokens;

// The functions of one weight type.
struct TypeFunctions {
  int64_t tile;
  void (*multiply)(const cpu::Matmul& m, const uint8_t* x, int64_t first, int64_t last,
                   float* scratch);
};

template <class Type>
void multiply_rows(const cpu::Matmul& m, const uint8_t* x, int64_t first, int64_t last,
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
  const RowPanel panel = row_panel(scratch, columns);
  float* const partial = scratch + panel_floats(columns);
  for (int64_t r = first; r < last; r += kPanelRows) {
    const int64_t n_rows = last - r < kPanelRows ? last - r : kPanelRows;
    for (int64_t i = 0; i < n_rows; ++i, row += row_stride) {
      fill_panel_row<Type>(row, columns, i, panel);
    }
    for (int64_t t = 0; t < m.n_tokens; t += kTile<Type>) {
      const int64_t n = m.n_tokens - t < kTile<Type> ? m.n_tokens - t : kTile<Type>;
      multiply_tokens<Type, kTile<Type>>(panel, n_rows, columns, x + t * x_bytes, n, partial,
                                         m.out + t * m.w.rows + r, m.w.rows);
    }
  }
}

template <class Type>
constexpr TypeFunctions kTypeFunctions = {kTile<Type>, multiply_rows<Type>};

inline const TypeFunctions& type_functions(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return kTypeFunctions<Int8Q4_0>;
    case TensorType::kQ4_1:
      return kTypeFunctions<Int8Q4_1>;
    case TensorType::kQ5_0:
      return kTypeFunctions<Int8Q5_0>;
    case TensorType::kQ5_1:
      return kTypeFunctions<Int8Q5_1>;
    case TensorType::kQ2_K:
      return kTypeFunctions<Int8Q2_K>;
    case TensorType::kQ3_K:
      return kTypeFunctions<Int8Q3_K>;
    case TensorType::kQ4_K:
      return kTypeFunctions<Int8Q4_K>;
    case TensorType::kQ5_K:
      return kTypeFunctions<Int8Q5_K>;
    case TensorType::kQ6_K:
      return kTypeFunctions<Int8Q6_K>;
    case TensorType::kQ8_0:
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      break;  // the last three are not stored in blocks, and not asked for
  }
  return kTypeFunctions<Int8Q8_0>;
}

inline int64_t activation_bytes(const cpu::Matmul& m) {
  return m.n_tokens * quantized_row_bytes(m.w.columns);
}

// A piece is a token, or a tile of them.
inline int64_t piece_tokens(const cpu::Matmul& m) {
  return m.n_tokens < kTokensWorthPanel ? 1 : type_functions(m.w.type).tile;
}

inline int64_t activation_pieces(const cpu::Matmul& m) {
  return (m.n_tokens + piece_tokens(m) - 1) / piece_tokens(m);
}

inline void quantize(const cpu::Matmul& m, int64_t first, int64_t last, uint8_t* out) {
  const int64_t columns = m.w.columns;
  const int64_t bytes = quantized_row_bytes(columns);
  const int64_t tile = piece_tokens(m);
  if (tile == 1) {
    for (int64_t t = first; t < last; ++t) {
      quantize_row(m.x + t * columns, columns, out + t * bytes);
    }
    return;
  }
  for (int64_t t = first * tile; t < last * tile && t < m.n_tokens; t += tile) {
    const int64_t n = m.n_tokens - t < tile ? m.n_tokens - t : tile;
    quantize_tile(m.x + t * columns, n, columns, out + t * bytes);
  }
}

inline int64_t int8_scratch(const cpu::Matmul& m) {
  if (m.n_tokens < kTokensWorthPanel) return 0;
  return panel_floats(m.w.columns) + 8 * kInt8Tokens * kPanelRows;
}

inline void int8_matmul_rows(const cpu::Matmul& m, const uint8_t* activations, int64_t first,
                             int64_t last, float* scratch) {
  type_functions(m.w.type).multiply(m, activations, first, last, scratch);
}

}  // namespace assay::ASSAY_ISA
