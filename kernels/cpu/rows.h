#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/coded_weights.h"
#include "kernels/cpu/k_weights.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/sums.h"
#include "kernels/cpu/weights.h"
#include "kernels/tensor_type.h"

// Rows of weights, read into memory or multiplied by one vector while they are in registers.
namespace assay::ASSAY_ISA {

template <class Type>
concept Blocked = requires {
  Type::kParts;
};

template <class Type>
concept ReadByBlock = requires {
  Type::kElements;
};

template <class Type, int64_t kPart = 0>
ASSAY_ALWAYS_INLINE void read_parts(const uint8_t* block, const typename Type::Scales& scales,
                                    float* out) {
  const F32x32 w = Type::template read<kPart>(block, scales);
  store(out + 32 * kPart, w.first);
  store(out + 32 * kPart + 16, w.second);
  if constexpr (kPart + 1 < Type::kParts) read_parts<Type, kPart + 1>(block, scales, out);
}

template <class Type>
void read_row(const uint8_t* data, int64_t n, float* out) {
  if constexpr (Blocked<Type>) {
    constexpr int64_t kElements = 32 * Type::kParts;
    for (int64_t i = 0; i < n; i += kElements, data += Type::kBytes) {
      typename Type::Scales scales[1];
      Type::read_scales(data, 0, scales);
      read_parts<Type>(data, scales[0], out + i);
    }
  } else if constexpr (ReadByBlock<Type>) {
    for (int64_t i = 0; i < n; i += Type::kElements, data += Type::kBytes) {
      Type::read_block(data, out + i);
    }
  } else {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(out + i, Type::read(data + i * Type::kBytes));
    if (i < n) store_partial(out + i, n - i, Type::read_partial(data + i * Type::kBytes, n - i));
  }
}

// How far ahead rows that are read side by side, `n_rows` of them `stride` bytes apart, ask for
// weights: as many whole groups of rows as make 4 KB, at least one. A distance within a long row
// would meet the next row of the same group, which is being read already.
inline size_t prefetch_distance(int64_t n_rows, size_t stride) {
  constexpr size_t kLeast = 4096;
  const size_t group = static_cast<size_t>(n_rows) * stride;
  return (kLeast + group - 1) / group * group;
}

// Asks for the bytes that follow at a distance: several rows read side by side look random to the
// processor's own prefetcher. Into the second-level cache: the first has too few places for lines
// on their way from memory. An address beyond the end of the weights does no harm.
template <int64_t kRows, int64_t kBytes>
ASSAY_ALWAYS_INLINE void prefetch_rows(const uint8_t* rows, size_t stride, size_t distance) {
  constexpr int64_t kLine = 64;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int64_t line = 0; line < kBytes; line += kLine) {
      __builtin_prefetch(rows + static_cast<size_t>(r) * stride + distance + line, 0, 2);
    }
  }
}

// The order of every dot product of Assay's CPU kernels: lane l sums the products of elements l,
// l + 16, l + 32, ... with fused multiply-adds, elements beyond the end count as zero, and the
// lanes are summed by the tree of store_sums. Each row is one chain of sums; several rows at once
// keep the arithmetic units busy.
template <class Type, int64_t kRows, int64_t kPart = 0>
ASSAY_ALWAYS_INLINE void dot_parts(const uint8_t* block, size_t stride,
                                   const typename Type::Scales (&scales)[kRows], const float* x,
                                   F32x16 (&sums)[kRows]) {
  const F32x16 x_first = load(x + 32 * kPart);
  const F32x16 x_second = load(x + 32 * kPart + 16);
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
    const F32x32 w = Type::template read<kPart>(block + static_cast<size_t>(r) * stride, scales[r]);
    sums[r] = fma(w.first, x_first, sums[r]);
    sums[r] = fma(w.second, x_second, sums[r]);
  }
  if constexpr (kPart + 1 < Type::kParts) {
    dot_parts<Type, kRows, kPart + 1>(block, stride, scales, x, sums);
  }
}

template <class Type, int64_t kRows>
ASSAY_ALWAYS_INLINE void dot_blocked_rows(const uint8_t* rows, size_t stride, int64_t columns,
                                          const float* x, F32x16 (&sums)[kRows]) {
  constexpr int64_t kElements = 32 * Type::kParts;
  const size_t distance = prefetch_distance(kRows, stride);
  for (int64_t i = 0; i < columns; i += kElements, rows += Type::kBytes) {
    prefetch_rows<kRows, Type::kBytes>(rows, stride, distance);
    typename Type::Scales scales[kRows];
    Type::read_scales(rows, stride, scales);
    dot_parts<Type, kRows>(rows, stride, scales, x + i, sums);
  }
}

template <class Type>
ASSAY_ALWAYS_INLINE float dot_plain_row(const uint8_t* row, int64_t columns, const float* x) {
  F32x16 sums = zero();
  int64_t i = 0;
  for (; i + 16 <= columns; i += 16, row += 16 * Type::kBytes) {
    sums = fma(Type::read(row), load(x + i), sums);
  }
  if (const int64_t n = columns - i; n > 0) {
    sums = fma(Type::read_partial(row, n), load_partial(x + i, n), sums);
  }
  return sum(sums);
}

// The same order in double; x has zeros behind it, up to a multiple of 16. The processor's own
// prefetcher stops at the ends of pages.
template <class Type>
ASSAY_ALWAYS_INLINE double dot_plain_row(const uint8_t* row, int64_t columns, const double* x) {
  constexpr int64_t kAhead = 8192;
  F64x16 sums = splat(0.0);
  int64_t i = 0;
  for (; i + 16 <= columns; i += 16, row += 16 * Type::kBytes) {
    __builtin_prefetch(row + kAhead, 0, 2);
    sums = add_exact_product(to_double(Type::read(row)), load(x + i), sums);
  }
  if (const int64_t n = columns - i; n > 0) {
    sums = add_exact_product(to_double(Type::read_partial(row, n)), load(x + i), sums);
  }
  return sum(sums);
}

template <class Type>
ASSAY_ALWAYS_INLINE F32x16 dot_row_by_block(const uint8_t* row, int64_t columns, const float* x) {
  F32x16 sums = zero();
  for (int64_t i = 0; i < columns; i += Type::kElements, row += Type::kBytes) {
    float w[Type::kElements];
    Type::read_block(row, w);
    for (int64_t j = 0; j < Type::kElements; j += 16) {
      sums = fma(load(w + j), load(x + i + j), sums);
    }
  }
  return sums;
}

// out[kRows]: the products of the rows at `rows`, `stride` bytes apart, with x.
template <class Type, int64_t kRows>
void dot_rows(const uint8_t* rows, size_t stride, int64_t columns, const float* x, float* out) {
  F32x16 sums[kRows];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) sums[r] = zero();
  dot_blocked_rows<Type, kRows>(rows, stride, columns, x, sums);
  if constexpr (kRows == 4) {
    store_sums(out, sums[0], sums[1], sums[2], sums[3]);
  } else {
    static_assert(kRows == 1);
    out[0] = sum(sums[0]);
  }
}

// out[n_rows]. Rows of plain numbers need little arithmetic and are read one after the other, which
// the processor's own prefetcher follows best.
template <class Type>
void multiply_rows(const uint8_t* rows, size_t stride, int64_t n_rows, int64_t columns,
                   const float* x, float* out) {
  int64_t r = 0;
  if constexpr (Blocked<Type>) {
    for (; r + kDotRows <= n_rows; r += kDotRows, rows += kDotRows * stride) {
      dot_rows<Type, kDotRows>(rows, stride, columns, x, out + r);
    }
    for (; r < n_rows; ++r, rows += stride) dot_rows<Type, 1>(rows, stride, columns, x, out + r);
  } else if constexpr (ReadByBlock<Type>) {
    for (; r < n_rows; ++r, rows += stride) out[r] = sum(dot_row_by_block<Type>(rows, columns, x));
  } else {
    for (; r < n_rows; ++r, rows += stride) out[r] = dot_plain_row<Type>(rows, columns, x);
  }
}

// The same of plain numbers, in double; `bias`, which may be null, is added before a product is
// rounded.
template <class Type>
void multiply_rows_in_double(const uint8_t* rows, size_t stride, int64_t n_rows, int64_t columns,
                             const double* x, const float* bias, float* out) {
  for (int64_t r = 0; r < n_rows; ++r, rows += stride) {
    out[r] = rounded_with_bias(dot_plain_row<Type>(rows, columns, x), bias, r);
  }
}

struct RowFunctions {
  void (*read)(const uint8_t* data, int64_t n, float* out);
  // Null of F16 and BF16, whose products are summed in double, or as whole numbers.
  void (*multiply)(const uint8_t* rows, size_t stride, int64_t n_rows, int64_t columns,
                   const float* x, float* out);
  // Null of types whose products are not summed in double.
  void (*multiply_in_double)(const uint8_t* rows, size_t stride, int64_t n_rows, int64_t columns,
                             const double* x, const float* bias, float* out);
};

template <class Type>
constexpr RowFunctions row_functions_of() {
  if constexpr (Blocked<Type> || ReadByBlock<Type>) {
    return {read_row<Type>, multiply_rows<Type>, nullptr};
  } else if constexpr (Type::kBytes == 2) {
    return {read_row<Type>, nullptr, multiply_rows_in_double<Type>};
  } else {
    return {read_row<Type>, multiply_rows<Type>, multiply_rows_in_double<Type>};
  }
}

template <class Type>
constexpr RowFunctions kRowFunctions = row_functions_of<Type>();

inline const RowFunctions& row_functions(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return kRowFunctions<F32>;
    case TensorType::kF16:
      return kRowFunctions<F16>;
    case TensorType::kBF16:
      return kRowFunctions<BF16>;
    case TensorType::kQ4_0:
      return kRowFunctions<Q4_0>;
    case TensorType::kQ4_1:
      return kRowFunctions<Q4_1>;
    case TensorType::kQ5_0:
      return kRowFunctions<Q5_0>;
    case TensorType::kQ5_1:
      return kRowFunctions<Q5_1>;
    case TensorType::kQ8_0:
      return kRowFunctions<Q8_0>;
    case TensorType::kQ2_K:
      return kRowFunctions<Q2_K>;
    case TensorType::kQ3_K:
      return kRowFunctions<Q3_K>;
    case TensorType::kQ4_K:
      return kRowFunctions<Q4_K>;
    case TensorType::kQ5_K:
      return kRowFunctions<Q5_K>;
    case TensorType::kQ6_K:
      return kRowFunctions<Q6_K>;
#define ASSAY_CASE(name)    \
  case TensorType::k##name: \
    return kRowFunctions<Coded<coded::name>>;
      ASSAY_CODED_TYPES(ASSAY_CASE)
#undef ASSAY_CASE
  }
  return kRowFunctions<F32>;  // not reached: the enumeration is covered
}

}  // namespace assay::ASSAY_ISA
