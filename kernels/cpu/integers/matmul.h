#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/int16.h"
#include "kernels/cpu/integers/panel.h"
#include "kernels/cpu/integers/quantize.h"
#include "kernels/cpu/integers/simd.h"
#include "kernels/cpu/integers/weights.h"
#include "kernels/tensor_type.h"

// Products of weights with activations, both as whole numbers: of 8 bits, or of 14 (int16.h).
//
// The order of every sum of those of 8 bits: the products within a block of 32 are whole numbers,
// exact in any order. Block j then goes into lane j % 8 of eight float lanes, by one fused
// multiply-add for its scale and, where the type has shifts, one more; the lanes are added by the
// tree of sum(F32x8). Where the two halves of a block have scales of their own, half h goes into
// lane half_place(j % 8) + 4h of sixteen, and lanes l and l + 8 are added first. With one token a
// row's lanes lie in one register or two; with many, sixteen rows lie in one (panel.h), and lanes
// are computed one after the other.
namespace assay::ASSAY_ISA {

// Adds a chunk, of which kBlocks are in the row, to the row's lanes; `j` is its first block.
template <class Type, int64_t kBlocks>
ASSAY_ALWAYS_INLINE void add_chunk(const uint8_t* data, int64_t j, const QuantizedRow& x,
                                   F32x8 (&lanes)[2]) {
  Chunk chunk;
  read_chunk<Type, kBlocks, true>(data, kBlocks, chunk);
  I32x8 dots[8] = {};
#pragma GCC unroll 8
  for (int64_t p = 0; p < kBlocks; ++p) {
    dots[p] = dot32<Type::kWide>(chunk.codes[p], x.codes + 32 * (j + p));
  }
  const auto less_offset = [](I32x8 sums, const int32_t* total) {
    if constexpr (Type::kOffset == 0) {
      return sums;
    } else {
      return sub(sums, shift_left<__builtin_ctz(Type::kOffset)>(load_ints(total)));
    }
  };
  const F32x8 x_scale = load8(x.scale + j);
  if constexpr (Type::kTwoScales) {
    const F32x8 x_scales[2] = {first_four_twice(x_scale), last_four_twice(x_scale)};
#pragma GCC unroll 2
    for (int64_t i = 0; i < (kBlocks + 3) / 4; ++i) {
      const int64_t at = 2 * j + 8 * i;
      const I32x8 sums =
          less_offset(half_sums(dots[4 * i], dots[4 * i + 1], dots[4 * i + 2], dots[4 * i + 3]),
                      x.half_total + at);
      lanes[i] = fma(to_float(sums), mul(chunk.scale[i], x_scales[i]), lanes[i]);
      if constexpr (Type::kShifted) {
        lanes[i] = fma(chunk.shift[i], load8(x.half_sum + at), lanes[i]);
      }
    }
  } else {
    I32x8 all;
    if constexpr (Nibbles<Type>) {
      all = all_sums_of_nibbles(dots);
    } else {
      all = all_sums(dots);
    }
    const I32x8 sums = less_offset(all, x.total + j);
    lanes[0] = fma(to_float(sums), mul(chunk.scale[0], x_scale), lanes[0]);
    if constexpr (Type::kShifted) lanes[0] = fma(chunk.shift[0], load8(x.sum + j), lanes[0]);
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
  return sum(Type::kTwoScales ? add(lanes[0], lanes[1]) : lanes[0]);
}

// Activations in 8 bits, and room for the rows that they are multiplied with.
struct Int8Activations {
  static constexpr int64_t kTileTokens = kInt8Tokens;
  static int64_t token_bytes(int64_t columns) { return quantized_row_bytes(columns); }
  static int64_t panel_floats(int64_t columns) { return ASSAY_ISA::panel_floats(columns); }
  static void round_token(const float* x, int64_t columns, uint8_t* out) {
    quantize_row(x, columns, out);
  }
  static void round_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
    quantize_tile(x, n, columns, out);
  }
};

struct Int16Activations {
  static constexpr int64_t kTileTokens = kInt16Tokens;
  static int64_t token_bytes(int64_t columns) { return pair_row_bytes(columns); }
  static int64_t panel_floats(int64_t columns) { return pair_panel_floats(columns); }
  static void round_token(const float* x, int64_t columns, uint8_t* out) {
    round_pair_row(x, columns, out);
  }
  static void round_tile(const float* x, int64_t n, int64_t columns, uint8_t* out) {
    round_pair_tile(x, n, columns, out);
  }
};

// Body(activations) with those that weights of this type are multiplied with.
template <class Body>
auto with_activations(TensorType type, const Body& body) {
  return rounding_of(type) == Rounding::kInt16 ? body(Int16Activations()) : body(Int8Activations());
}

// What products of all types with these activations have in common.
template <class Activations>
class PanelProducts : public Activations {
 public:
  static int64_t partial_floats(int64_t) { return 8 * Activations::kTileTokens * kPanelRows; }

  // partial[partial_floats()].
  PanelProducts(int64_t columns, float* partial) : columns_(columns), partial_(partial) {}

 protected:
  int64_t columns_;
  float* partial_;
};

// What multiply_few() and multiply_panels() ask of a type of weights.
template <class Type>
struct Int8Products : PanelProducts<Int8Activations> {
  using PanelProducts<Int8Activations>::PanelProducts;

  void fill(const uint8_t* row, size_t stride, int64_t n_rows, float* panel) const {
    fill_panel<Type>(row, stride, n_rows, columns_, row_panel(panel, columns_));
  }
  void multiply(float* panel, const uint8_t* x, int64_t n_tokens, const ProductOut& out) const {
    multiply_tokens<typename Type::Traits, kInt8Tokens>(
        row_panel(panel, columns_), columns_ / 32,
        [&](int64_t n) { return token_tile(x, n, columns_); }, n_tokens, partial_, out);
  }
  // Calls body(dot), where dot(row, x) is the product of a row with a token.
  template <class Body>
  static void with_dot(int64_t columns, const Body& body) {
    with_rest<Type>(columns, [&](auto rest) {
      body([columns](const uint8_t* row, const uint8_t* x) {
        return dot_row<Type, decltype(rest)::value>(row, columns, quantized_row(x, columns));
      });
    });
  }
};

template <class Type>
struct Int16Products : PanelProducts<Int16Activations> {
  using PanelProducts<Int16Activations>::PanelProducts;

  void fill(const uint8_t* row, size_t stride, int64_t n_rows, float* panel) const {
    fill_pair_panel<Type>(row, stride, n_rows, columns_, pair_panel(panel, columns_));
  }
  void multiply(float* panel, const uint8_t* x, int64_t n_tokens, const ProductOut& out) const {
    multiply_tokens<PairTraits, kInt16Tokens>(
        pair_panel(panel, columns_), pair_blocks(columns_),
        [&](int64_t n) { return pair_tile(x, n, columns_); }, n_tokens, partial_, out);
  }
  template <class Body>
  static void with_dot(int64_t columns, const Body& body) {
    body([columns](const uint8_t* row, const uint8_t* x) {
      return dot_pair_row<Type>(row, columns, pair_row(x, columns));
    });
  }
};

template <class Type>
struct ProductsOf {
  using Products = Int8Products<Type>;
};
template <>
struct ProductsOf<F16> {
  using Products = Int16Products<F16>;
};
template <>
struct ProductsOf<BF16> {
  using Products = Int16Products<BF16>;
};

// Rows one after the other, each with the few tokens.
template <class Products>
void multiply_few(const MatmulCall& m, const uint8_t* x, int64_t first, int64_t last) {
  const int64_t x_bytes = Products::token_bytes(m.w.columns);
  const size_t row_stride = row_bytes(m.w.type, m.w.columns);
  const auto* row = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * row_stride;
  Products::with_dot(m.w.columns, [&](const auto& dot) {
    for (int64_t r = first; r < last; ++r, row += row_stride) {
      for (int64_t t = 0; t < m.n_tokens; ++t) {
        const float sum = dot(row, x + t * x_bytes);
        m.out[t * m.w.rows + r] = m.bias == nullptr ? sum : sum + m.bias[r];
      }
    }
  });
}

// Panels that are sorted together before the tokens pass by: as many as stay in the second-level
// cache, for all tokens have to be read again for each such group.
template <class Activations>
int64_t panels_at_once(int64_t columns) {
  constexpr int64_t kFloats = int64_t{96} * 1024;
  constexpr int64_t kMost = 8;
  const int64_t fitting = kFloats / Activations::panel_floats(columns);
  return fitting < 1 ? 1 : fitting > kMost ? kMost : fitting;
}

// What multiply_panels() wants as scratch.
template <class Products>
int64_t scratch_floats(int64_t columns) {
  return panels_at_once<Products>(columns) * Products::panel_floats(columns) +
         Products::partial_floats(columns);
}

template <class Products>
void multiply_panels(const MatmulCall& m, const uint8_t* x, int64_t first, int64_t last,
                     float* scratch) {
  constexpr int64_t kTile = Products::kTileTokens;
  const int64_t columns = m.w.columns;
  const int64_t x_bytes = Products::token_bytes(columns);
  const size_t row_stride = row_bytes(m.w.type, columns);
  const auto* row = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * row_stride;
  const int64_t at_once = panels_at_once<Products>(columns);
  const Products products(columns, scratch + at_once * Products::panel_floats(columns));
  for (int64_t group = first; group < last; group += at_once * kPanelRows) {
    const int64_t end = last - group < at_once * kPanelRows ? last : group + at_once * kPanelRows;
    const auto panel = [&](int64_t r) {
      return scratch + (r - group) / kPanelRows * Products::panel_floats(columns);
    };
    for (int64_t r = group; r < end; r += kPanelRows, row += kPanelRows * row_stride) {
      const int64_t n_rows = end - r < kPanelRows ? end - r : kPanelRows;
      products.fill(row, row_stride, n_rows, panel(r));
    }
    // The rows of the next group are asked for while the tokens pass by, evenly.
    const int64_t next_rows = last - end < at_once * kPanelRows ? last - end : at_once * kPanelRows;
    const auto next_bytes = next_rows * static_cast<int64_t>(row_stride);
    const int64_t n_products =
        (m.n_tokens + kTile - 1) / kTile * ((end - group + kPanelRows - 1) / kPanelRows);
    const int64_t each = (next_bytes / n_products + 63) / 64 * 64;
    int64_t asked = 0;
    for (int64_t t = 0; t < m.n_tokens; t += kTile) {
      const int64_t n = m.n_tokens - t < kTile ? m.n_tokens - t : kTile;
      for (int64_t r = group; r < end; r += kPanelRows) {
        for (const int64_t until = asked + each; asked < until && asked < next_bytes; asked += 64) {
          __builtin_prefetch(row + asked, 0, 2);
        }
        const int64_t n_rows = end - r < kPanelRows ? end - r : kPanelRows;
        products.multiply(
            panel(r), x + t * x_bytes, n,
            {m.out + t * m.w.rows + r, m.w.rows, n_rows, m.bias == nullptr ? nullptr : m.bias + r});
      }
    }
  }
}

// Calls body(Type()) with how weights of this type are read.
template <class Body>
void with_weights(TensorType type, const Body& body) {
  switch (type) {
    case TensorType::kQ4_0:
      return body(Int8Q4_0());
    case TensorType::kQ4_1:
      return body(Int8Q4_1());
    case TensorType::kQ5_0:
      return body(Int8Q5_0());
    case TensorType::kQ5_1:
      return body(Int8Q5_1());
    case TensorType::kQ2_K:
      return body(Int8Q2_K());
    case TensorType::kQ3_K:
      return body(Int8Q3_K());
    case TensorType::kQ4_K:
      return body(Int8Q4_K());
    case TensorType::kQ5_K:
      return body(Int8Q5_K());
    case TensorType::kQ6_K:
      return body(Int8Q6_K());
    case TensorType::kQ8_0:
      return body(Int8Q8_0());
#define ASSAY_CASE(name)    \
  case TensorType::k##name: \
    return body(Int8Coded<coded::name>());
      ASSAY_CODED_TYPES(ASSAY_CASE)
#undef ASSAY_CASE
    case TensorType::kF16:
      return body(F16());
    case TensorType::kBF16:
      return body(BF16());
    case TensorType::kF32:
      break;  // not rounded: not asked for
  }
}

}  // namespace assay::ASSAY_ISA
