#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/sums.h"

namespace assay::ASSAY_ISA {

// Two matrices of rows that are multiplied with each other, every row of `w` with every row of
// `x`, and where the product of row r and token t goes: out[t * out_stride + r].
template <class Weight>
struct Panel {
  const Weight* w;  // in double with zeros behind each row, up to a multiple of 16
  int64_t w_stride;
  const float* x;
  int64_t columns;    // also the stride of x
  const float* bias;  // of sums in double; may be null
  float* out;
  int64_t out_stride;
};

template <class Sums, int64_t kRows, int64_t kTokens, class Weight, class LoadW, class LoadX>
ASSAY_ALWAYS_INLINE void accumulate_tile(const Panel<Weight>& p, int64_t column, LoadW load_w,
                                         LoadX load_x,
                                         typename Sums::Lanes (&sums)[kTokens][kRows]) {
  typename Sums::Lanes w[kRows];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) w[r] = load_w(p.w + r * p.w_stride + column);
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
    const typename Sums::Lanes x = load_x(p.x + t * p.columns + column);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) sums[t][r] = Sums::add_product(w[r], x, sums[t][r]);
  }
}

// kRows x kTokens products, each in the order of dot_rows; their sums stay in registers.
template <class Sums, int64_t kRows, int64_t kTokens, class Weight>
void multiply_tile(const Panel<Weight>& p) {
  typename Sums::Lanes sums[kTokens][kRows];
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) sums[t][r] = Sums::zero();
  }
  int64_t column = 0;
  for (; column + 16 <= p.columns; column += 16) {
    accumulate_tile<Sums, kRows, kTokens>(
        p, column, [](const Weight* w) { return Sums::load_numbers(w); },
        [](const float* x) { return Sums::load_numbers(x); }, sums);
  }
  if (const int64_t left = p.columns - column; left > 0) {
    const auto load_left = [left](const float* x) { return Sums::lanes(load_partial(x, left)); };
    if constexpr (std::is_same_v<Weight, double>) {
      accumulate_tile<Sums, kRows, kTokens>(
          p, column, [](const double* w) { return load(w); }, load_left, sums);
    } else {
      accumulate_tile<Sums, kRows, kTokens>(p, column, load_left, load_left, sums);
    }
  }
#pragma GCC unroll 8
  for (int64_t t = 0; t < kTokens; ++t) {
    float* out = p.out + t * p.out_stride;
    if constexpr (Sums::kInDouble) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) out[r] = rounded_with_bias(sum(sums[t][r]), p.bias, r);
    } else if constexpr (kRows % 4 == 0) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; r += 4) {
        store_sums(out + r, sums[t][r], sums[t][r + 1], sums[t][r + 2], sums[t][r + 3]);
      }
    } else {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) out[r] = sum(sums[t][r]);
    }
  }
}

// `n_rows` rows of w with the kTokens rows of x. Few tokens leave registers for twice as many rows.
template <class Sums, int64_t kTokens, class Weight>
void multiply_token_tile(Panel<Weight> p, int64_t n_rows) {
  const auto multiply = [&]<int64_t kRows>(Count<kRows>) {
    for (; n_rows >= kRows; n_rows -= kRows) {
      multiply_tile<Sums, kRows, kTokens>(p);
      p.w += kRows * p.w_stride;
      p.out += kRows;
      if (p.bias != nullptr) p.bias += kRows;
    }
  };
  if constexpr (2 * kTokens <= Sums::kTokens) multiply(Count<2 * Sums::kRows>());
  multiply(Count<Sums::kRows>());
  multiply(Count<1>());
}

// As multiply_token_tile for n_tokens <= kTokens.
template <class Sums, int64_t kTokens, class Weight>
void multiply_tokens(const Panel<Weight>& p, int64_t n_rows, int64_t n_tokens) {
  if constexpr (kTokens > 0) {
    if (n_tokens == kTokens) return multiply_token_tile<Sums, kTokens>(p, n_rows);
    multiply_tokens<Sums, kTokens - 1>(p, n_rows, n_tokens);
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

// x[count] as doubles, and zeros up to a multiple of 16.
inline void widen(const float* x, int64_t count, double* out) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) store(out + i, to_double(load(x + i)));
  if (i < count) store(out + i, to_double(load_partial(x + i, count - i)));
}

// Rows that are dequantised together before they meet the tokens: they stay in the second-level
// cache while all tokens pass by.
template <class Sums>
int64_t rows_per_panel(int64_t columns) {
  constexpr int64_t kPanelBytes = int64_t{256} * 1024;
  constexpr int64_t kMaxRows = 64;
  const int64_t row = columns * static_cast<int64_t>(sizeof(typename Sums::Real));
  const int64_t fitting = kPanelBytes / row / 4 * 4;
  return fitting < 4 ? 4 : fitting > kMaxRows ? kMaxRows : fitting;
}

// One cache line more than a row takes: with a power of two, all rows of a tile and of its tokens
// would meet in the same few places of the first-level cache.
inline int64_t panel_stride(int64_t columns) {
  return round_up_to_16(columns) + 16;
}

// Scratch holds a panel of rows, then a tile of tokens, or in double a row as it was read.
template <class Sums>
int64_t panel_numbers(int64_t columns) {
  return rows_per_panel<Sums>(columns) * panel_stride(columns);
}

template <class Sums>
int64_t scratch_bytes(int64_t columns) {
  const int64_t floats = (Sums::kInDouble ? 1 : Sums::kTokens) * round_up_to_16(columns);
  return panel_numbers<Sums>(columns) * static_cast<int64_t>(sizeof(typename Sums::Real)) +
         floats * static_cast<int64_t>(sizeof(float));
}

// Whether products of exact math with this type are summed in double.
inline bool is_in_double(const MatmulCall& m, bool exact) {
  return exact && row_functions(m.w.type).multiply_in_double != nullptr;
}

inline int64_t matmul_scratch(const MatmulCall& m, bool exact) {
  if (m.n_tokens == 1) {
    return is_in_double(m, exact) ? round_up_to_16(m.w.columns) * int64_t{sizeof(double)} : 0;
  }
  return is_in_double(m, exact) ? scratch_bytes<DoubleSums>(m.w.columns)
                                : scratch_bytes<FloatSums>(m.w.columns);
}

// Part i of n of the bytes from `begin` to `end` is asked for: the weights of the next panel, while
// this one is multiplied. Processors fetch ahead only what is read one after the other.
inline void prefetch_part(const uint8_t* begin, const uint8_t* end, int64_t i, int64_t n) {
  constexpr int64_t kLine = 64;
  const int64_t lines = (end - begin + kLine - 1) / kLine;
  for (int64_t line = lines * i / n; line < lines * (i + 1) / n; ++line) {
    __builtin_prefetch(begin + line * kLine, 0, 2);
  }
}

// `n_rows` rows, at `panel`, with all tokens. `next` to `next_end`: the weights that follow.
template <class Sums, class Weight>
void multiply_panel(const MatmulCall& m, const Weight* panel, int64_t w_stride, int64_t first_row,
                    int64_t n_rows, const uint8_t* next, const uint8_t* next_end, float* tile) {
  const int64_t columns = m.w.columns;
  const float* bias = Sums::kInDouble && m.bias != nullptr ? m.bias + first_row : nullptr;
  for (int64_t t = 0; t < m.n_tokens; t += Sums::kTokens) {
    const int64_t n = m.n_tokens - t < Sums::kTokens ? m.n_tokens - t : Sums::kTokens;
    prefetch_part(next, next_end, t / Sums::kTokens,
                  (m.n_tokens + Sums::kTokens - 1) / Sums::kTokens);
    const float* x = m.x + t * columns;
    if constexpr (!Sums::kInDouble) x = aligned(x, n * columns, tile);
    const Panel<Weight> p{panel,   w_stride, x, columns, bias, m.out + t * m.w.rows + first_row,
                          m.w.rows};
    multiply_tokens<Sums, Sums::kTokens>(p, n_rows, n);
  }
}

// Rows [first, last), at `rows`, with several tokens. Floats that are summed in double are read
// where they are.
template <class Sums>
void multiply_panels(const MatmulCall& m, const uint8_t* rows, int64_t first, int64_t last,
                     void* scratch) {
  const RowFunctions& functions = row_functions(m.w.type);
  const int64_t columns = m.w.columns;
  const size_t stride = row_bytes(m.w.type, columns);
  const int64_t at_once = rows_per_panel<Sums>(columns);
  auto* panel = static_cast<typename Sums::Real*>(scratch);
  auto* floats = reinterpret_cast<float*>(panel + panel_numbers<Sums>(columns));
  for (int64_t row = first; row < last; row += at_once) {
    const int64_t n_rows = last - row < at_once ? last - row : at_once;
    const uint8_t* const own = rows;
    rows += static_cast<size_t>(n_rows) * stride;
    const int64_t left = last - row - n_rows;
    const int64_t n_next = left < at_once ? left : at_once;
    const uint8_t* const next_end = rows + static_cast<size_t>(n_next) * stride;
    if constexpr (Sums::kInDouble) {
      if (m.w.type == TensorType::kF32 && reinterpret_cast<uintptr_t>(own) % alignof(float) == 0) {
        multiply_panel<Sums>(m, reinterpret_cast<const float*>(own), columns, row, n_rows, rows,
                             next_end, floats);
        continue;
      }
    }
    for (int64_t r = 0; r < n_rows; ++r) {
      const uint8_t* const from = own + static_cast<size_t>(r) * stride;
      auto* const to = panel + r * panel_stride(columns);
      if constexpr (Sums::kInDouble) {
        functions.read(from, columns, floats);
        widen(floats, columns, to);
      } else {
        functions.read(from, columns, to);
      }
    }
    multiply_panel<Sums>(m, panel, panel_stride(columns), row, n_rows, rows, next_end, floats);
  }
}

inline void matmul_rows(const MatmulCall& m, bool exact, int64_t first, int64_t last,
                        void* scratch) {
  const RowFunctions& functions = row_functions(m.w.type);
  const int64_t columns = m.w.columns;
  const size_t stride = row_bytes(m.w.type, columns);
  const auto* rows = static_cast<const uint8_t*>(m.w.data) + static_cast<size_t>(first) * stride;
  if (is_in_double(m, exact)) {
    if (m.n_tokens > 1) return multiply_panels<DoubleSums>(m, rows, first, last, scratch);
    auto* const x = static_cast<double*>(scratch);
    widen(m.x, columns, x);
    return functions.multiply_in_double(rows, stride, last - first, columns, x,
                                        m.bias == nullptr ? nullptr : m.bias + first,
                                        m.out + first);
  }
  if (m.n_tokens == 1) {
    functions.multiply(rows, stride, last - first, columns, m.x, m.out + first);
  } else {
    multiply_panels<FloatSums>(m, rows, first, last, scratch);
  }
  if (m.bias == nullptr) return;
  for (int64_t t = 0; t < m.n_tokens; ++t) {
    float* out = m.out + t * m.w.rows + first;
    add(out, m.bias + first, last - first, out);
  }
}

}  // namespace assay::ASSAY_ISA
