#pragma once

#include "kernels/cuda/weights.h"

// How `fast` math rounds activations: 32 neighbouring elements, a block, have one scale. Eight
// neighbouring threads have four elements each.
namespace assay::ASSAY_DEVICE {

constexpr int kActivationBlock = 32;  // elements
constexpr int kBlockLanes = 8;        // that the blocks of a row go into, one after the other

__host__ __device__ constexpr int64_t activation_blocks(int64_t columns) {
  return (columns + kActivationBlock - 1) / kActivationBlock;
}

// The same up to the next multiple of eight.
__host__ __device__ constexpr int padded_blocks(int64_t columns) {
  return static_cast<int>((activation_blocks(columns) + kBlockLanes - 1) / kBlockLanes *
                          kBlockLanes);
}

struct RoundedFour {
  float numbers[4];  // kZero + a whole number from -most to most
  float scale;       // of the block: an element is about scale * number
};

// A block whose largest value is below 1e-30 becomes zero. One with a NaN or an infinity has NaN
// for its scale, and any numbers. All threads of the warp must call it.
__device__ inline RoundedFour round_four(const float (&values)[4], float most) {
  constexpr float kLeast = 1e-30F;
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr uint32_t kNaN = 0x7FC00000U;
  uint32_t largest = 0;  // bits without sign are in the order of the numbers, then of NaN
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32_t own = float_bits(values[i]) & 0x7FFFFFFFU;
    largest = own > largest ? own : largest;
  }
  ASSAY_UNROLL
  for (int distance = 4; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFU, largest, distance);
    largest = other > largest ? other : largest;
  }
  const float magnitude = float_from_bits(largest);
  const bool counts = largest < kInfinity && magnitude >= kLeast;
  const float inverse = counts ? most / magnitude : 0.0F;
  RoundedFour four;
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) four.numbers[i] = values[i] * inverse + kZero;
  four.scale = counts ? magnitude / most : float_from_bits(largest < kInfinity ? 0 : kNaN);
  return four;
}

}  // namespace assay::ASSAY_DEVICE
