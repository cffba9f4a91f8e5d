#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

// simd_x86.h says what these operations promise.
namespace assay::portable {

struct I32x8 {
  int32_t v[8];
};

struct F32x8 {
  float v[8];
};

template <class Result, class Function>
ASSAY_ALWAYS_INLINE Result eight(Function f) {
  Result result;
  for (int i = 0; i < 8; ++i) result.v[i] = f(i);
  return result;
}

// Products of codes with signed bytes.
template <class Byte>
ASSAY_ALWAYS_INLINE int32_t four_products(const uint8_t* codes, const Byte* x) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += int32_t{codes[i]} * static_cast<int8_t>(x[i]);
  return sum;
}

template <bool kWide>
ASSAY_ALWAYS_INLINE I32x8 dot32(U8x32 codes, const int8_t* x) {
  uint8_t bytes[32];
  std::memcpy(bytes, codes.v, sizeof(bytes));
  return eight<I32x8>([&](int64_t i) { return four_products(&bytes[4 * i], &x[4 * i]); });
}

ASSAY_ALWAYS_INLINE I32x8 half_sums(I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  const I32x8 all[4] = {a, b, c, d};
  return eight<I32x8>([&](int64_t i) {
    const int32_t* four = &all[i % 4].v[i / 4 * 4];
    return four[0] + four[1] + four[2] + four[3];
  });
}

ASSAY_ALWAYS_INLINE I32x8 load_ints(const int32_t* ints) {
  return eight<I32x8>([&](int i) { return ints[i]; });
}

ASSAY_ALWAYS_INLINE I32x8 sub(I32x8 a, I32x8 b) {
  return eight<I32x8>([&](int i) { return a.v[i] - b.v[i]; });
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x8 shift_left(I32x8 a) {
  return eight<I32x8>([&](int i) { return a.v[i] * (1 << kBits); });
}

ASSAY_ALWAYS_INLINE F32x8 to_float(I32x8 a) {
  return eight<F32x8>([&](int i) { return static_cast<float>(a.v[i]); });
}

ASSAY_ALWAYS_INLINE F32x8 zero8() {
  return {};
}

ASSAY_ALWAYS_INLINE F32x8 splat8(float value) {
  return eight<F32x8>([&](int) { return value; });
}

ASSAY_ALWAYS_INLINE F32x8 load8(const float* floats) {
  return eight<F32x8>([&](int i) { return floats[i]; });
}

ASSAY_ALWAYS_INLINE F32x8 set8(const float (&v)[8]) {
  return eight<F32x8>([&](int i) { return v[i]; });
}

ASSAY_ALWAYS_INLINE void store8(float* out, F32x8 a) {
  std::memcpy(out, a.v, sizeof(a.v));
}

ASSAY_ALWAYS_INLINE F32x8 mul(F32x8 a, F32x8 b) {
  return eight<F32x8>([&](int i) { return a.v[i] * b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return eight<F32x8>([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}

ASSAY_ALWAYS_INLINE F32x8 add(F32x8 a, F32x8 b) {
  return eight<F32x8>([&](int i) { return a.v[i] + b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x8 first_four_twice(F32x8 a) {
  return eight<F32x8>([&](int i) { return a.v[i % 4]; });
}

ASSAY_ALWAYS_INLINE F32x8 last_four_twice(F32x8 a) {
  return eight<F32x8>([&](int i) { return a.v[4 + i % 4]; });
}

ASSAY_ALWAYS_INLINE float sum(F32x8 a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}

ASSAY_ALWAYS_INLINE I32x8 widen8(const uint8_t* bytes) {
  return eight<I32x8>([&](int i) { return int32_t{bytes[i]}; });
}

ASSAY_ALWAYS_INLINE U8x32 bit_xor(U8x32 a, U8x32 b) {
  return {{a.v[0] ^ b.v[0], a.v[1] ^ b.v[1]}};
}

ASSAY_ALWAYS_INLINE U8x32 add_sixteen_where(uint32_t bits, U8x32 codes) {
  uint8_t bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>((bits >> i & 1U) << 4U);
  return bit_or(codes, load_bytes(bytes));
}

ASSAY_ALWAYS_INLINE U8x32 product_nibbles(const uint8_t* sixteen) {
  return nibbles(sixteen);
}

ASSAY_ALWAYS_INLINE float f16_at(const uint8_t* half) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof(bits));
  return float_from_f16(bits);
}

ASSAY_ALWAYS_INLINE void split_f16_pairs(const uint32_t (&pairs)[8], F32x8& first, F32x8& second) {
  first = eight<F32x8>([&](int i) { return float_from_f16(static_cast<uint16_t>(pairs[i])); });
  second =
      eight<F32x8>([&](int i) { return float_from_f16(static_cast<uint16_t>(pairs[i] >> 16U)); });
}

ASSAY_ALWAYS_INLINE void sort_halves(const int8_t* sixteen, I32x8 (&halves)[2]) {
  for (int h = 0; h < 2; ++h) {
    halves[h] = eight<I32x8>([&](int i) { return int32_t{sixteen[8 * h + i % 4 * 2 + i / 4]}; });
  }
}

ASSAY_ALWAYS_INLINE void transpose8(const uint8_t* rows, size_t stride, size_t at,
                                    uint8_t* const (&out)[8]) {
  for (size_t r = 0; r < 8; ++r) {
    for (size_t i = 0; i < 8; ++i) std::memcpy(out[i] + at + 4 * r, rows + r * stride + 4 * i, 4);
  }
}

ASSAY_ALWAYS_INLINE void transpose4(const uint8_t* rows, size_t stride, size_t at,
                                    uint8_t* const (&out)[8]) {
  for (size_t r = 0; r < 4; ++r) {
    for (size_t i = 0; i < 8; ++i) std::memcpy(out[i] + at + 4 * r, rows + r * stride + 4 * i, 4);
  }
}

constexpr int64_t kInt8Tokens = 2;
constexpr int64_t kInt16Tokens = 2;
constexpr bool kHasCodeForEachLength = false;

template <bool kWide>
ASSAY_ALWAYS_INLINE I32x16 add_row_products(I32x16 sums, const uint8_t* codes, const uint8_t* x) {
  return add(sums, each_lane<I32x16>([&](int64_t r) { return four_products(&codes[4 * r], x); }));
}

ASSAY_ALWAYS_INLINE I32x16 to_nearest(F32x16 a) {
  return each_lane<I32x16>([&](int l) {
    const float value = a.v[l / 4][l % 4];
    // As the processors' instructions: what no 32-bit integer is becomes the least of them.
    if (!(value >= -2147483648.0F && value < 2147483648.0F)) return INT32_MIN;
    return static_cast<int32_t>(__builtin_nearbyintf(value));
  });
}

ASSAY_ALWAYS_INLINE void store_low_bytes(int8_t* out, I32x16 first, I32x16 second) {
  for (int l = 0; l < 16; ++l) {
    out[l] = static_cast<int8_t>(first.v[l / 4][l % 4] & 0xFF);
    out[l + 16] = static_cast<int8_t>(second.v[l / 4][l % 4] & 0xFF);
  }
}

ASSAY_ALWAYS_INLINE I32x8 largest_magnitudes(const uint8_t* blocks, int64_t n) {
  return eight<I32x8>([&](int64_t p) {
    int32_t largest = 0;
    for (int64_t i = 0; i < 32 && p < n; ++i) {
      uint16_t word;
      std::memcpy(&word, blocks + 64 * p + 2 * i, sizeof(word));
      const int32_t magnitude = word & 0x7FFF;
      if (magnitude > largest) largest = magnitude;
    }
    return largest;
  });
}

ASSAY_ALWAYS_INLINE uint32_t largest_magnitude(const float* x) {
  uint32_t largest = 0;
  for (int i = 0; i < 32; ++i) {
    const uint32_t magnitude = float_bits(x[i]) & 0x7FFFFFFFU;
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

ASSAY_ALWAYS_INLINE I32x8 splat_int8(int32_t value) {
  return eight<I32x8>([&](int) { return value; });
}

ASSAY_ALWAYS_INLINE I32x8 add(I32x8 a, I32x8 b) {
  return eight<I32x8>([&](int i) { return a.v[i] + b.v[i]; });
}

ASSAY_ALWAYS_INLINE I32x8 max(I32x8 a, I32x8 b) {
  return eight<I32x8>([&](int i) { return a.v[i] < b.v[i] ? b.v[i] : a.v[i]; });
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x8 shift_right(I32x8 a) {
  return eight<I32x8>([&](int i) { return a.v[i] >> kBits; });
}

ASSAY_ALWAYS_INLINE F32x8 as_floats(I32x8 bits) {
  return eight<F32x8>([&](int i) { return float_from_bits(static_cast<uint32_t>(bits.v[i])); });
}

ASSAY_ALWAYS_INLINE F32x8 float_or_nan(I32x8 bits, I32x8 a, int32_t b) {
  return eight<F32x8>([&](int i) { return a.v[i] == b ? NAN : as_floats(bits).v[i]; });
}

ASSAY_ALWAYS_INLINE int16_t low_half(uint32_t bits) {
  return static_cast<int16_t>(bits & 0xFFFFU);
}

struct I16x32 {
  int16_t v[32];
};

ASSAY_ALWAYS_INLINE I16x32 pair_up(F32x16 first, F32x16 second) {
  I16x32 pairs;
  for (int l = 0; l < 16; ++l) {
    pairs.v[2 * l] = low_half(float_bits(first.v[l / 4][l % 4]));
    pairs.v[2 * l + 1] = low_half(float_bits(second.v[l / 4][l % 4]));
  }
  return pairs;
}

ASSAY_ALWAYS_INLINE void store_pairs(void* out, I16x32 a) {
  std::memcpy(out, a.v, sizeof(a.v));
}

// Sums wrap around, as those of the processors do where weights are infinite.
ASSAY_ALWAYS_INLINE int32_t wrapping_sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

ASSAY_ALWAYS_INLINE int32_t two_products(const uint8_t* a, const uint8_t* b) {
  int16_t two[2][2];
  std::memcpy(two[0], a, sizeof(two[0]));
  std::memcpy(two[1], b, sizeof(two[1]));
  return wrapping_sum(int32_t{two[0][0]} * two[1][0], int32_t{two[0][1]} * two[1][1]);
}

ASSAY_ALWAYS_INLINE I32x8 add_low_products(I32x8 sums, F32x8 a, const uint32_t* x) {
  return eight<I32x8>([&](int i) {
    return wrapping_sum(sums.v[i], int32_t{low_half(float_bits(a.v[i]))} * int32_t{low_half(x[i])});
  });
}

ASSAY_ALWAYS_INLINE I32x8 all_sums(const I32x8 (&all)[8]) {
  return eight<I32x8>([&](int i) {
    int32_t total = 0;
    for (const int32_t lane : all[i].v) total = wrapping_sum(total, lane);
    return total;
  });
}

ASSAY_ALWAYS_INLINE I32x8 all_sums_of_nibbles(const I32x8 (&all)[8]) {
  return all_sums(all);
}

template <class Convert>
ASSAY_ALWAYS_INLINE F32x8 load8_halves(const uint8_t* halves, const Convert& convert) {
  return eight<F32x8>([&](int i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    return convert(half);
  });
}

ASSAY_ALWAYS_INLINE F32x8 load8_f16(const uint8_t* halves) {
  return load8_halves(halves, [](uint16_t half) { return float_from_f16(half); });
}

ASSAY_ALWAYS_INLINE F32x8 load8_bf16(const uint8_t* halves) {
  return load8_halves(halves, [](uint16_t half) { return float_from_bf16(half); });
}

ASSAY_ALWAYS_INLINE I32x16 add_pair_products(I32x16 sums, const uint8_t* pairs, const uint8_t* x) {
  return each_lane<I32x16>([&](int64_t r) {
    return wrapping_sum(sums.v[r / 4][r % 4], two_products(&pairs[4 * r], x));
  });
}

}  // namespace assay::portable
