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

// The sum of a group's lanes, in each of them. All threads of the warp must call it.
template <class Number>
__device__ Number sum_lanes(Number lane) {
  ASSAY_UNROLL
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    lane = lane + __shfl_xor_sync(0xFFFFFFFFU, lane, distance);
  }
  return lane;
}

// The sum of the lanes that one thread has, in the order of sum_lanes().
template <class Number, int kCount>
__device__ Number sum_of_lanes(Number (&lanes)[kCount]) {
  ASSAY_UNROLL
  for (int distance = kCount / 2; distance > 0; distance /= 2) {
    ASSAY_UNROLL
    for (int lane = 0; lane < kCount / 2; ++lane) {
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

// How sum_in_block() adds a term to a sum.
struct Plus {
  __device__ double operator()(double sum, double term) const { return sum + term; }
};

// The square of a float is exact in double.
struct PlusSquare {
  __device__ double operator()(double sum, double term) const { return fma(term, term, sum); }
};

// The sum of term(i) over i, i + 16, ... below `end`, by `add`.
template <class Term, class Add>
__device__ double sum_of_lane(int i, int end, const Term& term, const Add& add) {
  constexpr int kAhead = 8;
  double lane = 0.0;
  const auto make = [&](double(&terms)[kAhead]) {
    ASSAY_UNROLL
    for (int k = 0; k < kAhead; ++k) terms[k] = term(i + k * kLanes);
    i += kAhead * kLanes;
  };
  const auto add_up = [&](const double(&terms)[kAhead]) {
    ASSAY_UNROLL
    for (int k = 0; k < kAhead; ++k) lane = add(lane, terms[k]);
  };
  double even[kAhead];
  double odd[kAhead];
  int left = (end - i + kLanes - 1) / kLanes / kAhead;  // of kAhead terms
  if (left % 2 == 1) {
    make(even);
    add_up(even);
    --left;
  }
  // No condition is on what is made beside what is added: the two are not done one after the other.
  if (left > 0) {
    make(even);
    ASSAY_NO_UNROLL
    while (true) {
      make(odd);
      add_up(even);
      left -= 2;
      if (left == 0) break;
      make(even);
      add_up(odd);
    }
    add_up(odd);
  }
  if (i >= end) return lane;
  // Missing terms are 0, which changes no bit of a sum that began at +0.
  double rest[kAhead] = {};
  ASSAY_UNROLL
  for (int k = 0; k < kAhead; ++k) {
    if (i + k * kLanes < end) rest[k] = term(i + k * kLanes);
  }
  add_up(rest);
  return lane;
}

constexpr int kMaxGroups = 16;
constexpr int kSumRun = 512;  // elements

// Adds up term(i), a double, over the elements i in [0, n), n > 0, by `add`, in all threads of a
// block of kMaxGroups groups. Runs of 512 are summed in 16 lanes, all in double: the order of
// kernels/cpu/norms.h. Calls with the same type of `term` share the runs in shared memory: a
// barrier must stand between them.
template <class Term, class Add = Plus>
__device__ double sum_in_block(int64_t n, const Term& term, const Add& add = {}) {
  ASSAY_SHARED(double, runs, kMaxGroups);
  const auto count = static_cast<int>(n);
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  double sum = 0.0;
  int round = 0;
  ASSAY_NO_UNROLL
  while (true) {
    const int first = round + group * kSumRun;
    const int end = first + kSumRun < count ? first + kSumRun : count;
    const double run = sum_lanes(sum_of_lane(first + lane_of_group(), end, term, add));
    if (lane_of_group() == 0) runs[group] = run;
    __syncthreads();
    const int n_left = (count - round + kSumRun - 1) / kSumRun;
    const int n_runs = n_left < kMaxGroups ? n_left : kMaxGroups;
    ASSAY_UNROLL_BY_4
    for (int i = 0; i < n_runs; ++i) sum = sum + runs[i];
    round += kMaxGroups * kSumRun;
    if (round >= count) return sum;
    __syncthreads();  // before the next write to them
  }
}

}  // namespace assay::ASSAY_DEVICE
