#pragma once

#include "kernels/cuda/products.h"

// `fast` math: products of weights that are stored in blocks with activations rounded to 8 bits.
// The order of every sum is that of kernels/cpu/int8/matmul.h, so both give the same bits: sixteen
// products are summed as whole numbers, and lane l of a group has the half of a block that goes
// into lane l of sixteen there.
namespace assay::ASSAY_DEVICE {

constexpr int kHalf = 16;  // elements that have one scale

// Sixteen elements: about scale * code. A NaN or an infinity among them makes the scale NaN.
struct alignas(16) QuantizedHalf {
  uint4 codes;  // 16 whole numbers from -127 to 127
  float scale;
  float sum;      // scale * total
  int32_t total;  // of the codes
  int32_t unused;
};

// Of the elements value(0) to value(15), as kernels/cpu/int8/quantize.h has it.
template <class Value>
__device__ QuantizedHalf quantize_half(const Value& value) {
  constexpr float kLeast = 1e-30F;
  float values[kHalf];
  float largest = 0.0F;
  float poison = 0.0F;  // NaN if a value is NaN or infinite, else 0
  ASSAY_UNROLL
  for (int i = 0; i < kHalf; ++i) {
    values[i] = value(i);
    largest = fmaxf(largest, fabsf(values[i]));
    poison = poison + values[i] * 0.0F;
  }
  const bool counts = largest >= kLeast && poison == 0.0F;
  const float inverse = counts ? 127.0F / largest : 0.0F;
  uint32_t packed[4] = {};
  int32_t total = 0;
  ASSAY_UNROLL
  for (int i = 0; i < kHalf; ++i) {
    const int code = counts ? static_cast<int>(rintf(values[i] * inverse)) : 0;
    packed[i / 4] |= static_cast<uint32_t>(code & 0xFF) << (i % 4 * 8);
    total += code;
  }
  const float scale = (counts ? largest / 127.0F : 0.0F) + poison;
  return {{packed[0], packed[1], packed[2], packed[3]},
          scale,
          scale * static_cast<float>(total),
          total,
          0};
}

// The weights of a half, and what its products with a half of activations add to `sum`.
template <class Type>
struct WeightHalf {
  uint32_t codes[4];
  Factor factor;

  // Elements i to i + 15 of a block.
  __device__ WeightHalf(const uint8_t* block, int i)
      : factor(Type::factor(block, i / Type::kGroup)) {
    ASSAY_UNROLL
    for (int q = 0; q < 4; ++q) codes[q] = Type::four_codes(block, i + 4 * q);
  }

  __device__ float add_product(const QuantizedHalf& x, float sum) const {
    int dot = -Type::kOffset * x.total;
    const uint32_t x_codes[4] = {x.codes.x, x.codes.y, x.codes.z, x.codes.w};
    ASSAY_UNROLL
    for (int q = 0; q < 4; ++q) {
      dot = __dp4a(static_cast<int>(codes[q]), static_cast<int>(x_codes[q]), dot);
    }
    sum = fmaf(static_cast<float>(dot), factor.scale * x.scale, sum);
    if constexpr (Type::kShift == Shift::kAdded) sum = fmaf(factor.shift, x.sum, sum);
    if constexpr (Type::kShift == Shift::kSubtracted) sum = fmaf(-factor.shift, x.sum, sum);
    return sum;
  }
};

// Which of the sixteen halves of a chunk goes into `lane`.
__device__ inline int half_of_lane(int lane) {
  return lane / 8 * 8 + lane % 4 * 2 + lane % 8 / 4;
}

// `x` are the halves of a vector.
template <class Type, class Halves>
__device__ float multiply_row_int8(const Rows& rows, int64_t row, Stage& stage, const Halves& x) {
  RowReader<Type> reader(rows, row, stage);
  const int half = half_of_lane(lane_of_group());
  float sum = 0.0F;
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const uint8_t* chunk = reader.next();
    const int element = half * kHalf;
    if (first + element >= rows.columns) continue;
    const uint8_t* block = chunk + element / Type::kElements * Type::kBytes;
    const WeightHalf<Type> weights(block, element % Type::kElements);
    sum = weights.add_product(x[first / kHalf + half], sum);
  }
  return sum;
}

// As dot_row(), of types that are stored in blocks.
template <bool kCoded, class Halves>
__device__ float dot_row_int8(const Rows& rows, int64_t row, Stage& stage, const Halves& x) {
  float sum = 0.0F;
  with_type<kCoded>(rows.type, [&](auto type) {
    if constexpr (decltype(type)::kElements > 1) {
      sum = multiply_row_int8<decltype(type)>(rows, row, stage, x);
    }
  });
  return sum_lanes(sum);
}

}  // namespace assay::ASSAY_DEVICE
