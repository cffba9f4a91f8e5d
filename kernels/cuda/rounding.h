#pragma once

#include "kernels/cuda/weights.h"

// How `fast` math rounds activations: 32 neighbouring elements, a block, have one scale. Eight
// neighbouring threads have four elements each, or four have eight.
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

// Of so many times four neighbouring elements of a block.
template <int kFours>
struct RoundedFours {
  float numbers[kFours * 4];  // kZero + a whole number from -most to most
  float scale;                // of the block: an element is about scale * number
};

// The two divisions of this, without the branch that a division has for numbers that are not here:
// by estimates and residuals, which give what IEEE asks for.

// most / divisor, of a reciprocal that is off by at most a unit in the last place.
__device__ inline float divide_by(float divisor, float reciprocal, float most) {
  reciprocal = fmaf(fmaf(-divisor, reciprocal, 1.0F), reciprocal, reciprocal);
  float quotient = most * reciprocal;
  quotient = fmaf(fmaf(-divisor, quotient, most), reciprocal, quotient);
  return fmaf(fmaf(-divisor, quotient, most), reciprocal, quotient);
}

// most / magnitude, for a magnitude from 1e-30 on.
__device__ inline float inverse_scale(float magnitude, float most) {
  // Not so large that its reciprocal is subnormal; powers of two are exact.
  const float power = magnitude > 1e19F ? 0x1p-64F : 1.0F;
  const float divisor = magnitude * power;
  return divide_by(divisor, reciprocal_near(divisor), most) * power;
}

// magnitude / most, likewise.
__device__ inline float scale_of(float magnitude, float most) {
  const float reciprocal = 1.0F / most;  // a constant
  const float quotient = magnitude * reciprocal;
  return fmaf(fmaf(-most, quotient, magnitude), reciprocal, quotient);
}

// A block whose largest value is below 1e-30 becomes zero. One with a NaN or an infinity has NaN
// for its scale, and any numbers. All threads of the warp must call it.
template <int kFours>
__device__ RoundedFours<kFours> round_fours(const float4 (&values)[kFours], float most) {
  constexpr float kLeast = 1e-30F;
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr uint32_t kNaN = 0x7FC00000U;
  uint32_t largest = 0;  // bits without sign are in the order of the numbers, then of NaN
  const auto take = [&](float value) {
    const uint32_t own = float_bits(value) & 0x7FFFFFFFU;
    largest = own > largest ? own : largest;
  };
  ASSAY_UNROLL
  for (int i = 0; i < kFours; ++i) {
    take(values[i].x);
    take(values[i].y);
    take(values[i].z);
    take(values[i].w);
  }
  ASSAY_UNROLL
  for (int distance = 4 / kFours; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFU, largest, distance);
    largest = other > largest ? other : largest;
  }
  const float magnitude = float_from_bits(largest);
  const bool counts = largest < kInfinity && magnitude >= kLeast;
  // No branch: what is rounded beside this need not wait for it.
  const float inverse = inverse_scale(counts ? magnitude : 1.0F, counts ? most : 0.0F);
  RoundedFours<kFours> rounded;
  ASSAY_UNROLL
  for (int i = 0; i < kFours; ++i) {
    rounded.numbers[4 * i] = values[i].x * inverse + kZero;
    rounded.numbers[4 * i + 1] = values[i].y * inverse + kZero;
    rounded.numbers[4 * i + 2] = values[i].z * inverse + kZero;
    rounded.numbers[4 * i + 3] = values[i].w * inverse + kZero;
  }
  rounded.scale =
      counts ? scale_of(magnitude, most) : float_from_bits(largest < kInfinity ? 0 : kNaN);
  return rounded;
}

// kAtOnce times eight elements, of which the first are eight `first`, and the next n_threads times
// eight behind them: read, then rounded, then put at once, so that one does not wait for the other.
template <class Eight, int kAtOnce, class Values, class Put>
__device__ void round_some(int first, int n_threads, int count, const Values& values,
                           const Put& put) {
  float4 read[kAtOnce][2];
  ASSAY_UNROLL
  for (int i = 0; i < kAtOnce; ++i) {
    read[i][0] = values(8 * (first + i * n_threads));
    read[i][1] = values(8 * (first + i * n_threads) + 4);
  }
  Eight rounded[kAtOnce];
  ASSAY_UNROLL
  for (int i = 0; i < kAtOnce; ++i) rounded[i] = Eight(read[i]);
  ASSAY_UNROLL
  for (int i = 0; i < kAtOnce; ++i) {
    if (first + i * n_threads < count) put(first + i * n_threads, rounded[i]);
  }
}

// put(eight, Eight(values(8 * eight), values(8 * eight + 4))) of `count` times eight elements, a
// multiple of 32, by thread `thread` of n_threads; values(i) has four elements, 0 behind the end.
// All threads of a warp must call it, with adjacent numbers.
template <class Eight, class Values, class Put>
__device__ void round_eights(int count, int thread, int n_threads, const Values& values,
                             const Put& put) {
  int first = 0;
  ASSAY_NO_UNROLL
  for (; count - first > n_threads; first += 2 * n_threads) {
    round_some<Eight, 2>(first + thread, n_threads, count, values, put);
  }
  if (count - first > 0) round_some<Eight, 1>(first + thread, n_threads, count, values, put);
}

}  // namespace assay::ASSAY_DEVICE
