#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/panel.h"
#include "kernels/cpu/integers/quantize.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/integers/weights.h"
#include "kernels/tensor_type.h"

// Products of quantised weights with quantised activations.
//
// The order of every sum: the products within a half of a block, 16 of them, are whole numbers,
// exact in any order. Half h of block j then goes into lane half_place(j % 8) + 4h of sixteen float
// lanes, by one fused multiply-add for its scale and, where the type has shifts, one more. Lanes l
// and l + 8 are added, and these eight summed by the tree of sum(F32x8). With one token a row's
// lanes lie in two registers; with many, sixteen rows lie in one (panel.h), and one lane is
// computed after the other.
namespace assay::ASSAY_ISA {

// Adds a chunk, of which kBlocks are in the row, to the row's lanes; `j` is its first block.
template <class Type, int64_t kBlocks>
ASSAY_ALWAYS_INLINE void add_chunk(const uint8_t* data, int64_t j, const QuantizedRow& x,
                                   F32x8 (&lanes)[2]) {
  Chunk chunk;
  read_chunk<Type, kBlocks>(data, kBlocks, chunk);
  I32x8 dots[8] = {};
#pragma GCC unroll 8
  for (int64_t p = 0; p < kBlocks; ++p) {
    dots[p] = dot32<Type::kWide>(chunk.codes[p], x.codes + 32 * (j + p));
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < (kBlocks + 3) / 4; ++i) {
    I32x8 sums = half_sums(dots[4 * i], dots[4 * i + 1], dots[4 * i + 2], dots[4 * i + 3]);
    const int64_t at = 2 * j + 8 * i;
    if constexpr (Type::kOffset != 0) {
      constexpr int kShift = __builtin_ctz(Type::kOffset);
      sums = sub(sums, shift_left<kShift>(load_ints(x.total + at)));
    }
    lanes[i] = fma(to_float(sums), mul(chunk.scale[i], load8(x.scale + at)), lanes[i]);
    if constexpr (Type::kShifted) lanes[i] = fma(chunk.shift[i], load8(x.sum + at), lanes[i]);
  }
}

// One row with one token; kRest blocks stand after the last whole chunk, or any number of them if
// kFillsLastChunk.
template <class Type, int64_t kRest>
ASSAY_ALWAYS_INLINE float dot_row(const uint8_t* row, int64_t columns, const QuantizedRow& x) {
  F32x8 lanes[2] = {zero8(), zero8()};
  const int64_t whole = columns / 256 * 8;
  const auto add_whole_chunk = [&](const uint8_t* chunk, int64_t j) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kChunkBytes<Type>; line += 64) {
      __builtin_prefetch(row + 4096 + line);
    }
    add_chunk<Type, 8>(chunk, j, x, lanes);
  };
  if constexpr (kFillsLastChunk<Type>) {
    const LastChunk<Type> last(row + whole / 8 * kChunkBytes<Type>, columns / 32 - whole);
    for (int64_t j = 0; j < columns / 32; j += 8, row += kChunkBytes<Type>) {
      add_whole_chunk(j < whole ? row : last.bytes, j);
    }
  } else {
    for (int64_t j = 0; j < whole; j += 8, row += kChunkBytes<Type>) add_whole_chunk(row, j);
  }
  if constexpr (kRest > 0) add_chunk<Type, kRest>(row, whole, x, lanes);
  return sum(add(lanes[0], lanes[1]));
}

// Rows one after the other, each with the few tokens.
template <class Type, int64_t kRest>
void multiply_few(const MatmulCall& m, const uint8_t* x, int64_t first, int64_t last) {
  const int64_t columns = m.w.columns;
  const int64_t x_bytes = quantized_row_bytes(columns);
  const size_t row_stride = row_bytes(m.w.type, columns);
  const auto* row = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * row_stride;
  for (int64_t r = first; r < last; ++r, row += row_stride) {
    for (int64_t t = 0; t < m.n_tokens; ++t) {
      m.out[t * m.w.rows + r] =
          dot_row<Type, kRest>(row, columns, quantized_row(x + t * x_bytes, columns));
    }
  }
}

// Below this many tokens, sorting sixteen rows into a panel costs more than it gives.
constexpr int64_t kTokensWorthPanel = 4;

// Panels that are sorted together before the tokens pass by: as many as stay in the second-level
// cache, for all tokens have to be read again for each such group.
inline int64_t panels_at_once(int64_t columns) {
  constexpr int64_t kFloats = int64_t{96} * 1024;
  constexpr int64_t kMost = 8;
  const int64_t fitting = kFloats / panel_floats(columns);
  return fitting < 1 ? 1 : fitting > kMost ? kMost : fitting;
}

template <class Type>
void multiply_rows(const MatmulCall& m, const uint8_t* x, int64_t first, int64_t last,
                   float* scratch) {
  const int64_t columns = m.w.columns;
  const int64_t x_bytes = quantized_row_bytes(columns);
  const size_t row_stride = row_bytes(m.w.type, columns);
  const auto* row = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * row_stride;
  if (m.n_tokens < kTokensWorthPanel) {
    return with_rest<Type>(
        columns, [&](auto rest) { multiply_few<Type, decltype(rest)::value>(m, x, first, last); });
  }
  const int64_t at_once = panels_at_once(columns);
  float* const partial = scratch + at_once * panel_floats(columns);
  for (int64_t group = first; group < last; group += at_once * kPanelRows) {
    const int64_t end = last - group < at_once * kPanelRows ? last : group + at_once * kPanelRows;
    const auto panel = [&](int64_t r) {
      return row_panel(scratch + (r - group) / kPanelRows * panel_floats(columns), columns);
    };
    for (int64_t r = group; r < end; r += kPanelRows, row += kPanelRows * row_stride) {
      const int64_t n_rows = end - r < kPanelRows ? end - r : kPanelRows;
      fill_panel<Type>(row, row_stride, n_rows, columns, panel(r));
    }
    for (int64_t t = 0; t < m.n_tokens; t += kInt8Tokens) {
      const int64_t n = m.n_tokens - t < kInt8Tokens ? m.n_tokens - t : kInt8Tokens;
      for (int64_t r = group; r < end; r += kPanelRows) {
        const int64_t n_rows = end - r < kPanelRows ? end - r : kPanelRows;
        multiply_tokens<typename Type::Traits, kInt8Tokens>(panel(r), n_rows, columns,
                                                            x + t * x_bytes, n, partial,
                                                            m.out + t * m.w.rows + r, m.w.rows);
      }
    }
  }
}

inline int64_t activation_bytes(const MatmulCall& m) {
  return m.n_tokens * quantized_row_bytes(m.w.columns);
}

// A piece is a token, or a tile of them.
inline int64_t piece_tokens(const MatmulCall& m) {
  return m.n_tokens < kTokensWorthPanel ? 1 : kInt8Tokens;
}

inline int64_t activation_pieces(const MatmulCall& m) {
  return (m.n_tokens + piece_tokens(m) - 1) / piece_tokens(m);
}

inline void quantize(const MatmulCall& m, int64_t first, int64_t last, uint8_t* out) {
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

inline int64_t int8_scratch(const MatmulCall& m) {
  if (m.n_tokens < kTokensWorthPanel) return 0;
  const int64_t columns = m.w.columns;
  return panels_at_once(columns) * panel_floats(columns) + 16 * kInt8Tokens * kPanelRows;
}

inline void int8_matmul_rows(const MatmulCall& m, const uint8_t* activations, int64_t first,
                             int64_t last, float* scratch) {
  switch (m.w.type) {
    case TensorType::kQ4_0:
      return multiply_rows<Int8Q4_0>(m, activations, first, last, scratch);
    case TensorType::kQ4_1:
      return multiply_rows<Int8Q4_1>(m, activations, first, last, scratch);
    case TensorType::kQ5_0:
      return multiply_rows<Int8Q5_0>(m, activations, first, last, scratch);
    case TensorType::kQ5_1:
      return multiply_rows<Int8Q5_1>(m, activations, first, last, scratch);
    case TensorType::kQ2_K:
      return multiply_rows<Int8Q2_K>(m, activations, first, last, scratch);
    case TensorType::kQ3_K:
      return multiply_rows<Int8Q3_K>(m, activations, first, last, scratch);
    case TensorType::kQ4_K:
      return multiply_rows<Int8Q4_K>(m, activations, first, last, scratch);
    case TensorType::kQ5_K:
      return multiply_rows<Int8Q5_K>(m, activations, first, last, scratch);
    case TensorType::kQ6_K:
      return multiply_rows<Int8Q6_K>(m, activations, first, last, scratch);
    case TensorType::kQ8_0:
      return multiply_rows<Int8Q8_0>(m, activations, first, last, scratch);
#define ASSAY_CASE(name)    \
  case TensorType::k##name: \
    return multiply_rows<Int8Coded<coded::name>>(m, activations, first, last, scratch);
      ASSAY_CODED_TYPES(ASSAY_CASE)
#undef ASSAY_CASE
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      break;  // not stored in blocks: not asked for
  }
}

}  // namespace assay::ASSAY_ISA
