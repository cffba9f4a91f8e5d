#pragma once

#include "kernels/cuda/staging.h"
#include "kernels/kernels.h"

// The product of a row of weights with one vector, by a group of 16 lanes.
namespace assay::ASSAY_DEVICE {

// Of a block.
constexpr int kGroups = 16;
constexpr int kThreads = kGroups * kLanes;

// The lane's share of row `row` times x: of elements lane, lane + 16, ...
template <class Type, class Vector>
__device__ float multiply_row(const Rows& rows, int64_t row, Stage& stage, const Vector& x) {
  RowReader<Type> reader(rows, row, stage);
  const int lane = lane_of_group();
  float sum = 0.0F;
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const int n = rows.columns - first < kChunk<Type> ? rows.columns - first : kChunk<Type>;
    const uint8_t* chunk = reader.next();
    [[maybe_unused]] int factors = 0;
    if constexpr (Type::kElements > 1) factors = reader.share_factors(chunk, n, 0);
    // All of a chunk's parts at once would take more registers than there are.
    ASSAY_UNROLL_BY_2
    for (int i = lane; i < n; i += kLanes) {
      float w;
      if constexpr (Type::kElements > 1) {
        const uint8_t* block = chunk + i / Type::kElements * Type::kBytes;
        w = Type::weight(stage.factors[factors + i / Type::kGroup],
                         Type::code(block, i % Type::kElements));
      } else {
        w = Type::value(chunk + i * Type::kBytes);
      }
      sum = fmaf(w, x[first + i], sum);
    }
  }
  return sum;
}

// Row `row` times x, floats in device or shared memory, in all lanes of the group. kCoded as of
// with_type().
template <bool kCoded, class Vector>
__device__ float dot_row(const Rows& rows, int64_t row, Stage& stage, const Vector& x) {
  float sum = 0.0F;
  with_type<kCoded>(rows.type,
                    [&](auto type) { sum = multiply_row<decltype(type)>(rows, row, stage, x); });
  return sum_lanes(sum);
}

// Element `column` of row `row`.
__device__ inline float element_of(const Rows& rows, int64_t row, int64_t column) {
  float value = 0.0F;
  const auto read = [&](auto type) {
    using Type = decltype(type);
    const int64_t offset = row * int64_t{rows.stride} + column / Type::kElements * Type::kBytes;
    const uint8_t* block = rows.data.range(offset, Type::kBytes);
    if constexpr (Type::kElements > 1) {
      const auto i = static_cast<int>(column % Type::kElements);
      value = Type::weight(Type::factor(block, i / Type::kGroup), Type::code(block, i));
    } else {
      value = Type::value(block);
    }
  };
  with_type<false>(rows.type, read);
  with_type<true>(rows.type, read);
  return value;
}

inline Rows rows_of(const WeightMatrix& w, const float* bias) {
  return {
      static_cast<const uint8_t*>(w.data), w.type, static_cast<int>(row_bytes(w.type, w.columns)),
      static_cast<int>(w.columns),         w.rows, bias};
}

}  // namespace assay::ASSAY_DEVICE
