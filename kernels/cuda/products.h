#pragma once

#include "kernels/cuda/staging.h"
#include "kernels/kernels.h"

// The product of a row of weights with vectors, by a group of 16 lanes.
namespace assay::ASSAY_DEVICE {

// Vectors in device memory, `stride` floats apart: element i of vector t is x(t, i).
struct GlobalVectors {
  Global<const float> x;
  int64_t stride;
  __device__ float operator()(int t, int i) const { return x[t * stride + i]; }
};

// One vector in shared memory.
struct SharedVector {
  Shared<float> x;
  __device__ float operator()(int /*t*/, int i) const { return x[i]; }
};

// sums[t] = the lane's share of row `row` times x(t, ...) of the first n_tokens: of elements lane,
// lane + 16, ...
template <class Type, int kTokens, class Vectors>
__device__ void multiply_row(const Rows& rows, int64_t row, Stage& stage, const Vectors& x,
                             int n_tokens, float (&sums)[kTokens]) {
  RowReader<Type> reader(rows, row, stage);
  const int lane = lane_of_group();
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const int n = rows.columns - first < kChunk<Type> ? rows.columns - first : kChunk<Type>;
    const uint8_t* chunk = reader.next();
    [[maybe_unused]] int factors = 0;
    if constexpr (Type::kElements > 1) factors = reader.share_factors(chunk, n);
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
      ASSAY_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        if (t < n_tokens) sums[t] = fmaf(w, x(t, first + i), sums[t]);
      }
    }
  }
}

// sums[t] = row `row` times x(t, ...), in all lanes of the group.
template <int kTokens, class Vectors>
__device__ void dot_row(const Rows& rows, int64_t row, Stage& stage, const Vectors& x, int n_tokens,
                        float (&sums)[kTokens]) {
  ASSAY_UNROLL
  for (int t = 0; t < kTokens; ++t) sums[t] = 0.0F;
  with_type(rows.type, [&](auto type) {
    multiply_row<decltype(type), kTokens>(rows, row, stage, x, n_tokens, sums);
  });
  ASSAY_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    if (t < n_tokens) sums[t] = sum_lanes(sums[t]);
  }
}

// Element `column` of row `row`.
__device__ inline float element_of(const Rows& rows, int64_t row, int64_t column) {
  float value = 0.0F;
  with_type(rows.type, [&](auto type) {
    using Type = decltype(type);
    const int64_t offset = row * int64_t{rows.stride} + column / Type::kElements * Type::kBytes;
    const uint8_t* block = rows.data.range(offset, Type::kBytes);
    if constexpr (Type::kElements > 1) {
      const auto i = static_cast<int>(column % Type::kElements);
      value = Type::weight(Type::factor(block, i / Type::kGroup), Type::code(block, i));
    } else {
      value = Type::value(block);
    }
  });
  return value;
}

inline Rows rows_of(const WeightMatrix& w, const float* bias) {
  return {
      static_cast<const uint8_t*>(w.data), w.type, static_cast<int>(row_bytes(w.type, w.columns)),
      static_cast<int>(w.columns),         w.rows, bias};
}

}  // namespace assay::ASSAY_DEVICE
