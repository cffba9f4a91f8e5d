#pragma once

#include "kernels/cuda/staging.h"
#include "kernels/kernels.h"

// The product of a row of weights with one vector, by eight threads, each with two of the sixteen
// lanes (lanes.h). So a warp computes four rows at a time.
namespace assay::ASSAY_DEVICE {

constexpr int kRowThreads = 8;
constexpr int kRowsOfWarp = 4;
constexpr int kWarpThreads = kRowsOfWarp * kRowThreads;

// Of a block.
constexpr int kWarps = 8;
constexpr int kGroups = kWarps * kRowsOfWarp;
constexpr int kThreads = kGroups * kRowThreads;

__device__ inline int thread_of_row() {
  return static_cast<int>(threadIdx.x) % kRowThreads;
}

// Where `count` elements of a vector in device or in shared memory are.
template <class T>
__device__ const T* range_of(const Global<const T>& x, int64_t first, int64_t count) {
  return x.range(first, count);
}

// So many bytes of them, at a multiple of as many.
template <class Wide, class Vector>
__device__ Wide load_from(const Vector& x, int64_t first) {
  const auto* at = range_of(x, first, sizeof(Wide) / 4);  // elements of 4 bytes
  return load_as<Wide>(reinterpret_cast<const uint8_t*>(at));
}

// Elements i to i + 3, for an i that is a multiple of 4, of a vector of n at a multiple of 16
// bytes; 0 behind its end. kWhole: n is a multiple of 4, too.
template <bool kWhole, class Vector>
__device__ float4 four_of(const Vector& x, int64_t i, int64_t n) {
  float4 four = {0.0F, 0.0F, 0.0F, 0.0F};
  if constexpr (kWhole) {
    if (i < n) four = load_from<float4>(x, i);
  } else {
    if (i < n) four.x = x[i];
    if (i + 1 < n) four.y = x[i + 1];
    if (i + 2 < n) four.z = x[i + 2];
    if (i + 3 < n) four.w = x[i + 3];
  }
  return four;
}

// run(true_type) where vectors of n are read four elements at a time, else run(false_type).
template <class Run>
__device__ void for_width(int64_t n, const Run& run) {
  if (n % 4 == 0) return run(std::true_type{});
  run(std::false_type{});
}

// Two of the sixteen lanes of a dot product.
template <class Number>
struct TwoLanes {
  Number first{};
  Number second{};
};

// The sum of sixteen lanes by a tree that adds those whose numbers are `distances` apart, one after
// the other. Thread t of a row has two: the first at t with a 0 put in for the bit `apart` of a
// lane's number, the second with a 1. All threads of the warp must call it.
template <class Number>
__device__ Number sum_of_two(TwoLanes<Number> sums, int apart, const int (&distances)[4]) {
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (distances[i] == apart) {
      sums.first = sums.first + sums.second;
      continue;
    }
    const int threads = distances[i] > apart ? distances[i] / 2 : distances[i];
    sums.first = sums.first + __shfl_xor_sync(0xFFFFFFFFU, sums.first, threads);
    sums.second = sums.second + __shfl_xor_sync(0xFFFFFFFFU, sums.second, threads);
  }
  return sums.first;
}

// The sum of eight lanes, of which thread t of a row has lane t, in each thread. All threads of the
// warp must call it.
__device__ inline float sum_of_eight(float lane) {
  ASSAY_UNROLL
  for (int distance = kRowThreads / 2; distance > 0; distance /= 2) {
    lane = lane + __shfl_xor_sync(0xFFFFFFFFU, lane, distance);
  }
  return lane;
}

// The thread's share of a row that is stored in blocks: of elements 2t, 2t + 1, 2t + 16, ...
template <class Type, class Vector>
__device__ TwoLanes<float> multiply_row(const Rows& rows, int64_t row, Stage& stage,
                                        const Vector& x) {
  RowReader<Type, kRowThreads> reader(rows, row, stage);
  TwoLanes<float> sums;
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const auto n = static_cast<uint32_t>(rows.columns - first < kChunk<Type> ? rows.columns - first
                                                                             : kChunk<Type>);
    const uint8_t* chunk = reader.next();
    const int factors = reader.share_factors(chunk, n, 0);
    // All of a chunk's parts at once would take more registers than there are.
    ASSAY_UNROLL_BY_2
    for (uint32_t i = 2 * static_cast<uint32_t>(thread_of_row()); i < n; i += kLanes) {
      const uint8_t* block = chunk + i / Type::kElements * Type::kBytes;
      const uint32_t at = i % Type::kElements;
      const uint32_t codes = Type::four_codes(block, at / 4 * 4) >> (at % 4 * 8);
      const Factor factor = stage.factors[factors + i / Type::kGroup];
      const auto two = load_from<float2>(x, first + i);
      const int code = static_cast<int8_t>(codes);
      const int next = static_cast<int8_t>(codes >> 8U);
      sums.first = fmaf(Type::weight(factor, code - Type::kOffset), two.x, sums.first);
      sums.second = fmaf(Type::weight(factor, next - Type::kOffset), two.y, sums.second);
    }
  }
  return sums;
}

// Multiplies a row of n_parts parts, kAhead at a time, a round: load(part, from, i) reads the part
// i behind those at `from`, kPartBytes each, and multiply(part, i) adds part i to the sums. A round
// is read while the one before it is multiplied, to registers of its own: a value that is read
// under a condition, or moved to where a loop's next turn expects it, is waited for at once.
template <int kAhead, int kPartBytes, class Part, class Load, class Multiply>
__device__ void multiply_rounds(Global<const uint8_t> next, int n_parts, const Load& load,
                                const Multiply& multiply) {
  const auto load_round = [&](Part(&round)[kAhead]) {
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) load(round[i], next, i);
    next = next.from(kAhead * kPartBytes);
  };
  const auto multiply_round = [&](const Part(&round)[kAhead], int first) {
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) multiply(round[i], first + i);
  };
  int first = n_parts % kAhead;  // before it, what is more than a multiple of kAhead
  int left = n_parts / kAhead;   // rounds
  const Global<const uint8_t> before = next;
  next = next.from(first * kPartBytes);
  Part even[kAhead];
  if (left > 0) load_round(even);
  ASSAY_NO_UNROLL
  for (int i = 0; i < first; ++i) {
    Part part;
    load(part, before, i);
    multiply(part, i);
  }
  if (left == 0) return;
  ASSAY_NO_UNROLL
  for (; left > 2; left -= 2) {
    Part odd[kAhead];
    load_round(odd);
    multiply_round(even, first);
    load_round(even);
    multiply_round(odd, first + kAhead);
    first += 2 * kAhead;
  }
  if (left == 1) return multiply_round(even, first);
  Part odd[kAhead];
  load_round(odd);
  multiply_round(even, first);
  multiply_round(odd, first + kAhead);
}

// The same as multiply_row() of a row of plain numbers, which are read where they are.
template <class Type, class Number, class Vector>
__device__ TwoLanes<Number> multiply_plain_row(const Rows& rows, int64_t row, const Vector& x) {
  constexpr int kAhead = std::is_same_v<Number, double> && Type::kBytes == 4 ? 8 : 16;
  constexpr int kStepBytes = kLanes * Type::kBytes;
  using Two = typename Type::Two;
  const int own = 2 * thread_of_row();
  const Global<const uint8_t> data = rows.data.from(row * rows.stride + own * Type::kBytes);
  TwoLanes<Number> sums;
  const auto load = [](Two& step, const Global<const uint8_t>& from, int i) {
    step = load_weights<Two, 1>(from, int64_t{i} * kStepBytes);
  };
  const auto multiply = [&](const Two& step, int i) {
    const float2 weights = Type::floats(step);
    const auto two = load_from<float2>(x, own + i * kLanes);
    sums.first = add_product(weights.x, two.x, sums.first);
    sums.second = add_product(weights.y, two.y, sums.second);
  };
  // Rows of an odd number of elements begin at any of them.
  const int n_steps = rows.columns % 2 == 0 ? rows.columns / kLanes : 0;
  multiply_rounds<kAhead, kStepBytes, Two>(data, n_steps, load, multiply);
  ASSAY_UNROLL_BY_4
  for (int at = own + n_steps * kLanes; at < rows.columns; at += kLanes) {
    const int from = (at - own) * Type::kBytes;
    sums.first = add_product(Type::value(data.range(from, Type::kBytes)), x[at], sums.first);
    if (at + 1 == rows.columns) break;
    sums.second = add_product(Type::value(data.range(from + Type::kBytes, Type::kBytes)), x[at + 1],
                              sums.second);
  }
  return sums;
}

// What becomes of the sum of row `row`: the bias is added, before the one rounding of a double.
template <class Number>
__device__ float with_bias(const Rows& rows, int64_t row, Number sum) {
  return static_cast<float>(rows.bias ? sum + rows.bias[row] : sum);
}

// Row `row`, of one of kTypes, times x, floats in device or shared memory, and its bias, in all
// threads of the row. Plain rows are summed as Number, double in exact math, and those in blocks as
// float.
template <int kTypes, class Number, class Vector>
__device__ float dot_row(const Rows& rows, int64_t row, Stage& stage, const Vector& x) {
  if constexpr ((kTypes & kPlain) != 0) {
    if ((kTypes & ~kPlain) == 0 || is_plain(rows.type)) {
      TwoLanes<Number> sums;
      with_type<kTypes & kPlain>(rows.type, [&](auto type) {
        sums = multiply_plain_row<decltype(type), Number>(rows, row, x);
      });
      return with_bias(rows, row, sum_of_two(sums, 1, {8, 4, 2, 1}));
    }
  }
  TwoLanes<float> sums;
  with_type<kTypes & ~kPlain>(
      rows.type, [&](auto type) { sums = multiply_row<decltype(type)>(rows, row, stage, x); });
  return with_bias(rows, row, sum_of_two(sums, 1, {8, 4, 2, 1}));
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
  with_type<kPlain | kBlocks | kCoded>(rows.type, read);
  return value;
}

inline Rows rows_of(const WeightMatrix& w, const float* bias) {
  return {
      static_cast<const uint8_t*>(w.data), w.type, static_cast<int>(row_bytes(w.type, w.columns)),
      static_cast<int>(w.columns),         w.rows, bias};
}

}  // namespace assay::ASSAY_DEVICE
