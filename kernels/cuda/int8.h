#pragma once

#include "kernels/cuda/products.h"
#include "kernels/cuda/two_halves.h"

// `fast` math: products of weights that are stored in blocks with activations rounded to 8 bits.
// The order of every sum is that of kernels/cpu/integers/matmul.h, so both give the same bits:
// sixteen products are summed as whole numbers, and lane l of a group has the half of a block that
// goes into lane l of sixteen there.
namespace assay::ASSAY_DEVICE {

constexpr int kHalf = 16;  // elements that have one scale

// Sixteen elements: about scale * code. A NaN or an infinity among them makes the scale NaN.
struct QuantizedHalf {
  uint32_t codes[4];  // 16 whole numbers from -127 to 127
  float scale;
  float sum;      // scale * total
  int32_t total;  // of the codes
};

// Of the elements value(0) to value(15), as kernels/cpu/integers/quantize.h has it.
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
  QuantizedHalf half = {};
  ASSAY_UNROLL
  for (int i = 0; i < kHalf; ++i) {
    const int code = counts ? static_cast<int>(rintf(values[i] * inverse)) : 0;
    half.codes[i / 4] |= static_cast<uint32_t>(code & 0xFF) << (i % 4 * 8);
    half.total += code;
  }
  half.scale = (counts ? largest / 127.0F : 0.0F) + poison;
  half.sum = half.scale * static_cast<float>(half.total);
  return half;
}

// Which of the sixteen halves of a chunk goes into `lane`.
__device__ inline int half_of_lane(int lane) {
  return lane / 8 * 8 + lane % 4 * 2 + lane % 8 / 4;
}

// The first half of a chunk that thread t of a row has, of two that are kApart elements apart, and
// how far apart their lanes are.
template <int kElementsApart>
constexpr int kLanesApart = kElementsApart == 16   ? 4
                            : kElementsApart == 32 ? 1
                                                   : 2;

template <int kApart>
__device__ int first_half_of(int t) {
  constexpr int kBit = kLanesApart<kApart>;
  return half_of_lane(t / kBit * 2 * kBit + t % kBit);
}

// Where the codes of a half stand: within sixteen so that the first halves that the threads of a
// row read at once, and the second ones, are each in all banks of shared memory, however far apart
// the two are.
__device__ inline int place_of_half(int half) {
  const int neighbours = (half ^ half >> 1) & 3;
  return half / 16 * 16 + half % 2 * 8 + (half & 8) / 2 + neighbours;
}

// The halves of a vector: the codes of all, then scale and sum of each, then the totals. Codes have
// places up to the next multiple of sixteen.
template <class Words>
struct Halves {
  Words words;
  int count;

  __host__ __device__ static int scales_of(int count) { return (count + 15) / 16 * 16 * 4; }
  __host__ __device__ static int totals_of(int count) { return scales_of(count) + 2 * count; }
  __host__ __device__ static int words_of(int64_t columns) {
    const auto count = static_cast<int>(columns / kHalf);
    return totals_of(count) + count;
  }
  __host__ __device__ static Halves of(const Words& words, int64_t columns) {
    return {words, static_cast<int>(columns / kHalf)};
  }

  __device__ uint4 codes(int place) const { return load_from<uint4>(words, 4 * place); }
  __device__ float2 scale_and_sum(int half) const {
    return load_from<float2>(words, scales_of(count) + 2 * half);
  }
  __device__ int total(int half) const {
    return static_cast<int>(load_from<uint32_t>(words, totals_of(count) + half));
  }

  // The elements value(i) of the vector to their places, by thread `thread` of so many.
  template <class Value>
  __device__ void fill(int thread, int n_threads, const Value& value) const {
    ASSAY_NO_UNROLL
    for (int half = thread; half < count; half += n_threads) {
      const QuantizedHalf own = quantize_half([&](int i) { return value(half * kHalf + i); });
      ASSAY_UNROLL
      for (int i = 0; i < 4; ++i) words[4 * place_of_half(half) + i] = own.codes[i];
      words[scales_of(count) + 2 * half] = float_bits(own.scale);
      words[scales_of(count) + 2 * half + 1] = float_bits(own.sum);
      words[totals_of(count) + half] = static_cast<uint32_t>(own.total);
    }
  }
};

template <class Type, class Words>
__device__ float add_half(const uint32_t (&codes)[4], const Factor& factor, const Halves<Words>& x,
                          int place, int half, float sum) {
  const uint4 own = x.codes(place);
  const float2 scale_and_sum = x.scale_and_sum(half);
  const uint32_t x_codes[4] = {own.x, own.y, own.z, own.w};
  int dot = Type::kOffset == 0 ? 0 : -Type::kOffset * x.total(half);
  ASSAY_UNROLL
  for (int q = 0; q < 4; ++q) {
    dot = __dp4a(static_cast<int>(codes[q]), static_cast<int>(x_codes[q]), dot);
  }
  sum = fmaf(static_cast<float>(dot), factor.scale * scale_and_sum.x, sum);
  if constexpr (Type::kShift == Shift::kAdded) sum = fmaf(factor.shift, scale_and_sum.y, sum);
  if constexpr (Type::kShift == Shift::kSubtracted) sum = fmaf(-factor.shift, scale_and_sum.y, sum);
  return sum;
}

// The halves that a thread of a row multiplies: of each chunk one, and one kApart elements on.
template <int kApart>
struct OwnHalves {
  int first = first_half_of<kApart>(thread_of_row());
  int second = first + kApart / kHalf;
  int first_place = place_of_half(first);
  int second_place = place_of_half(second);

  template <class Type, class Words>
  __device__ void multiply(const uint32_t (&codes)[2][4], const Factor (&factors)[2],
                           const Halves<Words>& x, int done, TwoLanes<float>& sums) const {
    sums.first =
        add_half<Type>(codes[0], factors[0], x, done + first_place, done + first, sums.first);
    sums.second =
        add_half<Type>(codes[1], factors[1], x, done + second_place, done + second, sums.second);
  }
};

template <class Type, class Words>
__device__ TwoLanes<float> multiply_row_int8(const Rows& rows, int64_t row, Stage& stage,
                                             const Halves<Words>& x) {
  const OwnHalves<kHalvesApart<Type>> own;
  RowReader<Type, kRowThreads> reader(rows, row, stage);
  const auto element = static_cast<uint32_t>(own.first * kHalf);
  TwoLanes<float> sums;
  ASSAY_NO_UNROLL
  for (int first = 0; first < rows.columns; first += kChunk<Type>) {
    const uint8_t* chunk = reader.next();
    if (first + own.first * kHalf >= rows.columns) continue;
    const TwoHalves<Type> halves(chunk + element / Type::kElements * Type::kBytes,
                                 Type::kElements == 32 ? 0 : element % Type::kElements);
    own.template multiply<Type>(halves.codes, halves.factors, x, first / kHalf, sums);
  }
  return sums;
}

// Q4_K and Q5_K: a thread reads what it needs where it is, kAhead blocks before it is multiplied.
template <class Type, class Words>
__device__ TwoLanes<float> multiply_aligned_row(const Rows& rows, int64_t row,
                                                const Halves<Words>& x) {
  constexpr int kAhead = KHalves<Type>::kHasHighBits ? 3 : 4;
  const OwnHalves<kHalvesApart<Type>> own;
  const typename KHalves<Type>::Place place(static_cast<uint32_t>(own.first * kHalf));
  Global<const uint8_t> next = rows.data.from(row * rows.stride);
  const int n_blocks = rows.columns / Type::kElements;
  KHalves<Type> ahead[kAhead];
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (i < n_blocks) ahead[i].load(next, int64_t{i} * Type::kBytes, place);
  }
  TwoLanes<float> sums;
  ASSAY_NO_UNROLL
  for (int first = 0; first < n_blocks; first += kAhead) {
    next = next.from(kAhead * Type::kBytes);
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= n_blocks) break;
      uint32_t codes[2][4];
      Factor factors[2];
      ahead[i].unpack(place, codes, factors);
      own.template multiply<Type>(codes, factors, x, (first + i) * (Type::kElements / kHalf), sums);
      if (first + i + kAhead < n_blocks) ahead[i].load(next, int64_t{i} * Type::kBytes, place);
    }
  }
  return sums;
}

// As dot_row(), of types that are stored in blocks.
template <int kTypes, class Words>
__device__ float dot_row_int8(const Rows& rows, int64_t row, Stage& stage, const Halves<Words>& x) {
  TwoLanes<float> sums;
  int apart = 1;
  with_type<kTypes>(rows.type, [&](auto type) {
    using Type = decltype(type);
    if constexpr (std::is_same_v<Type, Q4_K> || std::is_same_v<Type, Q5_K>) {
      sums = multiply_aligned_row<Type>(rows, row, x);
    } else {
      sums = multiply_row_int8<Type>(rows, row, stage, x);
    }
    apart = kLanesApart<kHalvesApart<Type>>;
  });
  return with_bias(rows, row, sum_of_two(sums, apart));
}

}  // namespace assay::ASSAY_DEVICE
