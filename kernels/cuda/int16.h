#pragma once

#include "kernels/cuda/products.h"
#include "kernels/cuda/rounding.h"

// `fast` math: products of F16 and BF16 weights with activations, both as whole numbers of 14 bits,
// with the bits of kernels/cpu/integers/int16.h, which says what the numbers are. The 32 products
// of a block are summed as whole numbers, in any order. Each of the eight threads of a row has one
// of the eight lanes that the blocks go into.
//
// A code is 128 * high + low, two bytes from -64 to 63 and from 0 to 127: what the instructions
// multiply.
namespace assay::ASSAY_DEVICE {

constexpr int kParts = 4;  // of a block, each of eight elements

struct FourCodes {
  uint32_t high;
  uint32_t low;
};

// Those of two words with two codes each.
__device__ inline FourCodes bytes_of(uint32_t first, uint32_t second) {
  return {__byte_perm(first << 1U, second << 1U, 0x7531),
          __byte_perm(first, second, 0x6420) & 0x7F7F7F7FU};
}

// Two codes, each of which was added to kZero, in a word.
__device__ inline uint32_t two_codes(float first, float second) {
  return __byte_perm(float_bits(first), float_bits(second), 0x5410);
}

// 128 * high + low. Where weights are NaN or infinite the codes are any, and so is this.
__device__ inline int join(int high, int low) {
  return static_cast<int>(static_cast<uint32_t>(high) * 128U + static_cast<uint32_t>(low));
}

// So many times four neighbouring elements of a block. All threads of the warp must call it.
template <int kFours>
struct Int16Fours {
  FourCodes codes[kFours];
  float scale;

  Int16Fours() = default;
  __device__ explicit Int16Fours(const float4 (&values)[kFours]) {
    const RoundedFours<kFours> rounded = round_fours(values, 8191.0F);
    ASSAY_UNROLL
    for (int i = 0; i < kFours; ++i) {
      const auto two = [&](int first) {
        return two_codes(rounded.numbers[first], rounded.numbers[first + 1]);
      };
      codes[i] = bytes_of(two(4 * i), two(4 * i + 2));
    }
    scale = rounded.scale;
  }
};

// The blocks of a vector: the codes of all, then the scale of each, both with places up to the next
// multiple of eight blocks. Part p of a block has 16 bytes: high codes, then low ones. The same
// part of eight blocks stands together, so that the threads of a row read from all banks.
template <class Words>
struct Int16Blocks {
  static constexpr bool kWhole = false;

  Words words;
  int columns;

  __host__ __device__ static int words_of(int64_t columns) { return padded_blocks(columns) * 17; }

  __host__ __device__ static Int16Blocks of(const Words& words, int64_t columns) {
    return {words, static_cast<int>(columns)};
  }
  __device__ static int place(int block, int part) {
    return (block / kBlockLanes * kParts + part) * kBlockLanes + block % kBlockLanes;
  }
  __device__ uint4 codes(int block, int part) const {
    return load_from<uint4>(words, 4 * place(block, part));
  }
  __device__ float scale(int block) const {
    return load_from<float>(words, padded_blocks(columns) * 16 + block);
  }

  // As Int8Blocks has them.
  template <class Values>
  __device__ void fill(int thread, int n_threads, const Values& values) const {
    round_eights<Int16Fours<2>>(padded_blocks(columns) * 4, thread, n_threads, values,
                                [&](int eight, const Int16Fours<2>& own) { put(eight, own); });
  }
  __device__ void fill_own(int thread, const float4 (&values)[2]) const {
    const Int16Fours<2> own(values);
    if (thread < padded_blocks(columns) * 4) put(thread, own);
  }

 private:
  __device__ void put(int eight, const Int16Fours<2>& own) const {
    const int block = eight / kParts;
    const int at = 4 * place(block, eight % kParts);
    words[at] = own.codes[0].high;
    words[at + 1] = own.codes[1].high;
    words[at + 2] = own.codes[0].low;
    words[at + 3] = own.codes[1].low;
    if (eight % kParts == 0) words[padded_blocks(columns) * 16 + block] = float_bits(own.scale);
  }
};

// What a code of a block of weights is worth.
template <class Type>
struct BlockUnit {
  float unit;  // NaN if a weight is NaN or infinite
  float inverse;

  // `largest`: of the words' halves without sign, in either half.
  __device__ explicit BlockUnit(uint32_t largest) {
    constexpr uint32_t kBits = 12;  // of a code below its largest
    const uint32_t low = (largest & 0xFFFFU) >> Type::kMantissaBits;
    const uint32_t high = largest >> 16U >> Type::kMantissaBits;
    uint32_t exponent = low > high ? low : high;
    if (exponent < Type::kLeastExponent) exponent = Type::kLeastExponent;
    const uint32_t inverse_exponent = 127 + Type::kBias + kBits - exponent;
    inverse = float_from_bits(inverse_exponent << 23U);
    unit = float_from_bits(exponent == Type::kMostExponent ? 0x7FC00000U
                                                           : (254 - inverse_exponent) << 23U);
  }
};

__device__ inline uint32_t largest_of(const uint4& words, uint32_t largest) {
  constexpr uint32_t kMagnitudes = 0x7FFF7FFFU;
  largest = __vmaxu2(largest, words.x & kMagnitudes);
  largest = __vmaxu2(largest, words.y & kMagnitudes);
  largest = __vmaxu2(largest, words.z & kMagnitudes);
  return __vmaxu2(largest, words.w & kMagnitudes);
}

// The codes of eight weights, two in a word.
template <class Type>
__device__ void codes_of(const uint4& stored, float inverse, uint32_t (&codes)[4]) {
  const uint32_t words[4] = {stored.x, stored.y, stored.z, stored.w};
  ASSAY_UNROLL
  for (int q = 0; q < 4; ++q) {
    const float2 two = Type::floats(words[q]);
    codes[q] = two_codes(fmaf(two.x, inverse, kZero), fmaf(two.y, inverse, kZero));
  }
}

// How many blocks of a row are read 16 bytes at a time: none where rows begin at any multiple of 2.
__device__ inline int aligned_blocks(int columns) {
  return columns % 8 == 0 ? columns / kActivationBlock : 0;
}

// Eight elements of a row: at once where rows begin at multiples of 16 bytes, else one after the
// other; 0 behind its end.
__device__ inline uint4 load_eight(const Global<const uint8_t>& row, int first, int columns) {
  uint32_t words[4] = {};
  if (columns % 8 == 0 && first < columns) return load_weights<uint4, 1>(row, int64_t{first} * 2);
  ASSAY_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (first + i >= columns) break;
    const uint32_t own = load_weights<uint16_t, 1>(row, int64_t{first + i} * 2);
    words[i / 2] |= own << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// The products of a block go into its lane.
template <class Type, class Words>
__device__ float add_block(const uint4 (&stored)[kParts], const Int16Blocks<Words>& x, int block,
                           float lane) {
  uint32_t largest = 0;
  ASSAY_UNROLL
  for (int part = 0; part < kParts; ++part) largest = largest_of(stored[part], largest);
  const BlockUnit<Type> weight(largest);
  int high = 0;
  int low = 0;
  ASSAY_UNROLL
  for (int part = 0; part < kParts; ++part) {
    uint32_t codes[4];
    codes_of<Type>(stored[part], weight.inverse, codes);
    const uint4 own = x.codes(block, part);
    const auto add = [&](uint32_t two, uint32_t two_more, uint32_t bytes, int sum) {
      sum = __dp2a_lo(static_cast<int>(two), static_cast<int>(bytes), sum);
      return __dp2a_hi(static_cast<int>(two_more), static_cast<int>(bytes), sum);
    };
    high = add(codes[2], codes[3], own.y, add(codes[0], codes[1], own.x, high));
    low = add(codes[2], codes[3], own.w, add(codes[0], codes[1], own.z, low));
  }
  return fmaf(static_cast<float>(join(high, low)), weight.unit * x.scale(block), lane);
}

// The thread's lane of a row. It reads what it needs where it is, a block while it multiplies the
// one before.
template <class Type, class Words>
__device__ float multiply_row_int16(const Rows& rows, int64_t row, const Int16Blocks<Words>& x) {
  constexpr int kBlockBytes = kActivationBlock * Type::kBytes;
  struct Stored {
    uint4 parts[kParts];
  };
  const int own = thread_of_row();
  const Global<const uint8_t> data = rows.data.from(row * rows.stride);
  float lane = 0.0F;
  const auto load = [](Stored& stored, const Global<const uint8_t>& from, int step) {
    ASSAY_UNROLL
    for (int part = 0; part < kParts; ++part) {
      stored.parts[part] = load_weights<uint4, 1>(
          from, int64_t{step} * kBlockLanes * kBlockBytes + part * sizeof(uint4));
    }
  };
  const auto multiply = [&](const Stored& stored, int step) {
    lane = add_block<Type>(stored.parts, x, own + step * kBlockLanes, lane);
  };
  // In these all threads of the row have a block.
  const int n_steps = aligned_blocks(rows.columns) / kBlockLanes;
  multiply_rounds<1, kBlockLanes * kBlockBytes, Stored>(data.from(own * kBlockBytes), n_steps, load,
                                                        multiply);
  ASSAY_NO_UNROLL
  for (int block = own + n_steps * kBlockLanes; block * kActivationBlock < rows.columns;
       block += kBlockLanes) {
    uint4 stored[kParts];
    ASSAY_UNROLL
    for (int part = 0; part < kParts; ++part) {
      stored[part] = load_eight(data, block * kActivationBlock + part * 8, rows.columns);
    }
    lane = add_block<Type>(stored, x, block, lane);
  }
  return lane;
}

// As dot_row(), of F16 and BF16.
template <class Words>
__device__ float dot_row_int16(const Rows& rows, int64_t row, const Int16Blocks<Words>& x) {
  float lane = 0.0F;
  with_type<kHalfFloats>(
      rows.type, [&](auto type) { lane = multiply_row_int16<decltype(type)>(rows, row, x); });
  return with_bias(rows, row, sum_of_eight(lane));
}

}  // namespace assay::ASSAY_DEVICE
