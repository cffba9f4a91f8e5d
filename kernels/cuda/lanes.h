#pragma once

#include <type_traits>

#include "kernels/cuda/language.h"

namespace assay::ASSAY_DEVICE {

// A dot product is computed by a group of 16 threads, half a warp: lane l sums the products of
// elements l, l + 16, l + 32, ... with fused multiply-adds, and sum_lanes adds the lanes. That is
// the order of the CPU's kernels (kernels/cpu/rows.h), so both give the same bits. `Number` is the
// type of the sums, float or double.
constexpr int kLanes = 16;

// sum + a * b, rounded once. Of two floats, the product is exact in double.
template <class A, class B, class Number>
__device__ Number add_product(A a, B b, Number sum) {
  if constexpr (std::is_same_v<Number, double>) {
    return fma(static_cast<double>(a), static_cast<double>(b), sum);
  } else {
    return fmaf(a, b, sum);
  }
}

__device__ inline int lane_of_group() {
  return static_cast<int>(threadIdx.x) % kLanes;
}

// The sum of a group's lanes, in each of them. All lanes of the group must call it.
template <class Number>
__device__ Number sum_lanes(Number lane) {
  const uint32_t group = 0xFFFFU << (threadIdx.x & 16U);
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    lane = lane + __shfl_xor_sync(group, lane, distance);
  }
  return lane;
}

// The sum of sixteen lanes that one thread has, in the order of sum_lanes().
template <class Number>
__device__ Number sum_of_lanes(Number (&lanes)[kLanes]) {
  ASSAY_UNROLL
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    ASSAY_UNROLL
    for (int lane = 0; lane < kLanes / 2; ++lane) {
      if (lane < distance) lanes[lane] = lanes[lane] + lanes[lane + distance];
    }
  }
  return lanes[0];
}

// The sum of sixteen lanes, of which each of 16 / kCount adjacent threads has kCount adjacent ones,
// in each of them, in the order of sum_lanes(). All threads of the warp must call it.
template <class Number, int kCount>
__device__ Number sum_of_parts(Number (&lanes)[kCount]) {
  ASSAY_UNROLL
  for (int distance = kLanes / 2; distance >= kCount; distance /= 2) {
    ASSAY_UNROLL
    for (int i = 0; i < kCount; ++i) {
      lanes[i] = lanes[i] + __shfl_xor_sync(0xFFFFFFFFU, lanes[i], distance / kCount);
    }
  }
  ASSAY_UNROLL
  for (int distance = kCount / 2; distance > 0; distance /= 2) {
    ASSAY_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (i < distance) lanes[i] = lanes[i] + lanes[i + distance];
    }
  }
  return lanes[0];
}

// Adds up what `accumulate(sum, i)` makes of the elements i in [0, n), n > 0, in all threads of a
// block whose size is a multiple of 16 and at most 16 * kMaxGroups. Runs of 512 are summed in 16
// lanes, all in double: the order of kernels/cpu/norms.h.
constexpr int kMaxGroups = 16;

template <class Accumulate>
__device__ double sum_in_block(int64_t n, Accumulate accumulate) {
  constexpr int kRun = 512;
  constexpr int kAhead = 8;
  ASSAY_SHARED(double, runs, kMaxGroups);
  const auto count = static_cast<int>(n);
  const int n_groups = static_cast<int>(blockDim.x) / kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  double sum = 0.0;
  for (int round = 0; round < count; round += n_groups * kRun) {
    const int first = round + group * kRun + lane_of_group();
    const int end = round + (group + 1) * kRun < count ? round + (group + 1) * kRun : count;
    double lane = 0.0;
    int i = first;
    // Some are read ahead of the one chain of a lane's sums.
    ASSAY_NO_UNROLL
    for (; i + (kAhead - 1) * kLanes < end; i += kAhead * kLanes) {
      ASSAY_UNROLL
      for (int ahead = 0; ahead < kAhead; ++ahead) lane = accumulate(lane, i + ahead * kLanes);
    }
    ASSAY_NO_UNROLL
    for (; i < end; i += kLanes) lane = accumulate(lane, i);
    lane = sum_lanes(lane);
    if (lane_of_group() == 0) runs[group] = lane;
    __syncthreads();
    const int n_left = (count - round + kRun - 1) / kRun;
    const int n_runs = n_left < n_groups ? n_left : n_groups;
    ASSAY_UNROLL_BY_4
    for (int run = 0; run < n_runs; ++run) sum = sum + runs[run];
    __syncthreads();  // before the next write to them
  }
  return sum;
}

}  // namespace assay::ASSAY_DEVICE
