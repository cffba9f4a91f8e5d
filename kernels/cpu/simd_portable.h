#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

// simd.h says what these operations promise.
namespace assay::portable {

// Vectors of four as GCC and Clang know them on every processor; four of them are enough for
// the compiler to keep the source of this path short.
using F32x4 = float __attribute__((vector_size(16)));
using I32x4 = int32_t __attribute__((vector_size(16)));
using S8x4 = int8_t __attribute__((vector_size(4)));
using U8x4 = uint8_t __attribute__((vector_size(4)));
using U32x4 = uint32_t __attribute__((vector_size(16)));
using F64x2 = double __attribute__((vector_size(16)));

struct F32x16 {
  F32x4 v[4];
};

struct F64x16 {
  F64x2 v[8];
};

struct I32x16 {
  I32x4 v[4];
};

constexpr int64_t kDotRows = 1;
constexpr int64_t kTileRows = 2;
constexpr int64_t kTileTokens = 2;
constexpr int64_t kTileRowsF64 = 1;
constexpr int64_t kTileTokensF64 = 1;
constexpr bool kAlignTokens = false;
constexpr int64_t kTileQueries = 1;

// {f(0), ..., f(3)}
template <class Result, class Function>
ASSAY_ALWAYS_INLINE Result each_quarter(Function f) {
  return {{f(0), f(1), f(2), f(3)}};
}

// {f(0), ..., f(15)}
template <class Result, class Function>
ASSAY_ALWAYS_INLINE Result each_lane(Function f) {
  Result result;
  for (int l = 0; l < 16; ++l) result.v[l / 4][l % 4] = f(l);
  return result;
}

ASSAY_ALWAYS_INLINE F32x16 zero() {
  return {};
}

ASSAY_ALWAYS_INLINE F32x16 splat(float value) {
  return each_quarter<F32x16>([&](int) { return F32x4{value, value, value, value}; });
}

ASSAY_ALWAYS_INLINE F32x16 load(const void* floats) {
  F32x16 result;
  std::memcpy(result.v, floats, sizeof(result.v));
  return result;
}

ASSAY_ALWAYS_INLINE F32x16 load_partial(const void* floats, int64_t n) {
  F32x16 result = zero();
  std::memcpy(result.v, floats, static_cast<size_t>(n) * sizeof(float));
  return result;
}

ASSAY_ALWAYS_INLINE void store(float* out, F32x16 a) {
  std::memcpy(out, a.v, sizeof(a.v));
}

ASSAY_ALWAYS_INLINE void store_partial(float* out, int64_t n, F32x16 a) {
  std::memcpy(out, a.v, static_cast<size_t>(n) * sizeof(float));
}

ASSAY_ALWAYS_INLINE F32x16 add(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] + b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] - b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] * b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x16 div(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] / b.v[i]; });
}

// Without an instruction for it this is a call for each lane, which is better not repeated
// wherever it is used.
#if defined(__FP_FAST_FMAF)
ASSAY_ALWAYS_INLINE
#else
[[gnu::noinline]] inline
#endif
F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
  return each_lane<F32x16>([&](int l) {
    return __builtin_fmaf(a.v[l / 4][l % 4], b.v[l / 4][l % 4], c.v[l / 4][l % 4]);
  });
}

ASSAY_ALWAYS_INLINE F32x16 add_exact_product(F32x16 a, F32x16 b, F32x16 c) {
  return add(mul(a, b), c);
}

ASSAY_ALWAYS_INLINE F32x16 mul_stored(F32x16 a, const float& stored) {
  return mul(a, splat(stored));
}

ASSAY_ALWAYS_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

ASSAY_ALWAYS_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return each_quarter<F32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

ASSAY_ALWAYS_INLINE float sum(F32x16 a) {
  const F32x4 fours = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (fours[0] + fours[2]) + (fours[1] + fours[3]);
}

ASSAY_ALWAYS_INLINE void store_sums(float* out, F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}

ASSAY_ALWAYS_INLINE float max_lane(F32x16 a) {
  const auto greater = [](auto p, auto q) { return p > q ? p : q; };
  const F32x4 fours = greater(greater(a.v[0], a.v[2]), greater(a.v[1], a.v[3]));
  return greater(greater(fours[0], fours[2]), greater(fours[1], fours[3]));
}

ASSAY_ALWAYS_INLINE F32x16 load_f16_partial(const void* halves, int64_t n) {
  uint16_t bits[16] = {};
  std::memcpy(bits, halves, static_cast<size_t>(n) * sizeof(bits[0]));
  return each_lane<F32x16>([&](int l) { return float_from_f16(bits[l]); });
}

template <int64_t kRows>
ASSAY_ALWAYS_INLINE void load_f16_pairs(const uint8_t* rows, size_t stride, float* out) {
  for (size_t r = 0; r < kRows; ++r) {
    uint16_t halves[2];
    std::memcpy(halves, rows + r * stride, sizeof(halves));
    out[2 * r] = float_from_f16(halves[0]);
    out[2 * r + 1] = float_from_f16(halves[1]);
  }
}

ASSAY_ALWAYS_INLINE F32x16 load_f16(const void* halves) {
  return load_f16_partial(halves, 16);
}

ASSAY_ALWAYS_INLINE F32x16 splat_f16(const uint8_t* half) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof(bits));
  return splat(float_from_f16(bits));
}

ASSAY_ALWAYS_INLINE void store_f16_partial(uint16_t* out, int64_t n, F32x16 a) {
  for (int64_t l = 0; l < n; ++l) out[l] = f16_from_float(a.v[l / 4][l % 4]);
}

ASSAY_ALWAYS_INLINE void store_f16(uint16_t* out, F32x16 a) {
  store_f16_partial(out, 16, a);
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16_partial(const void* halves, int64_t n) {
  uint16_t bits[16] = {};
  std::memcpy(bits, halves, static_cast<size_t>(n) * sizeof(bits[0]));
  return each_lane<F32x16>([&](int l) { return float_from_bf16(bits[l]); });
}

ASSAY_ALWAYS_INLINE F32x16 load_bf16(const void* halves) {
  return load_bf16_partial(halves, 16);
}

ASSAY_ALWAYS_INLINE I32x16 splat_int(int32_t value) {
  return each_quarter<I32x16>([&](int) { return I32x4{value, value, value, value}; });
}

// 16 elements of the four-element vector type Narrow, widened to 32 bits each.
template <class Narrow>
ASSAY_ALWAYS_INLINE I32x16 load_widened(const void* elements) {
  Narrow narrow[4];
  std::memcpy(narrow, elements, sizeof(narrow));
  return each_quarter<I32x16>([&](int i) { return __builtin_convertvector(narrow[i], I32x4); });
}

ASSAY_ALWAYS_INLINE I32x16 load_u8(const uint8_t* bytes) {
  return load_widened<U8x4>(bytes);
}

ASSAY_ALWAYS_INLINE I32x16 load_s8(const uint8_t* bytes) {
  return load_widened<S8x4>(bytes);
}

using U8x16 = uint8_t __attribute__((vector_size(16)));

struct U8x32 {
  U8x16 v[2];
};

ASSAY_ALWAYS_INLINE U8x32 load_bytes(const uint8_t* bytes) {
  U8x32 result;
  std::memcpy(result.v, bytes, sizeof(result.v));
  return result;
}

ASSAY_ALWAYS_INLINE void store_bytes(uint8_t* out, U8x32 a) {
  std::memcpy(out, a.v, sizeof(a.v));
}

template <int kShift, int kMask>
ASSAY_ALWAYS_INLINE U8x32 bit_field(U8x32 a) {
  constexpr uint8_t kByteMask = kMask;
  return {{(a.v[0] >> kShift) & kByteMask, (a.v[1] >> kShift) & kByteMask}};
}

template <int kShift>
ASSAY_ALWAYS_INLINE U8x32 shift_bytes_left(U8x32 a) {
  return {{a.v[0] << kShift, a.v[1] << kShift}};
}

ASSAY_ALWAYS_INLINE U8x32 bit_or(U8x32 a, U8x32 b) {
  return {{a.v[0] | b.v[0], a.v[1] | b.v[1]}};
}

ASSAY_ALWAYS_INLINE U8x32 sub(U8x32 a, U8x32 b) {
  return {{a.v[0] - b.v[0], a.v[1] - b.v[1]}};
}

template <int kLow, int kHigh, int kTopBits>
ASSAY_ALWAYS_INLINE U8x32 joined_codes(U8x32 low, U8x32 high) {
  constexpr uint8_t kTop = (1 << kTopBits) - 1;
  for (int i = 0; i < 2; ++i) {
    low.v[i] = ((low.v[i] >> kLow) & 0xF) | (((high.v[i] >> kHigh) & kTop) << 4);
  }
  return low;
}

ASSAY_ALWAYS_INLINE U8x32 splat_byte(int8_t value) {
  const U8x16 all = U8x16{} + static_cast<uint8_t>(value);
  return {{all, all}};
}

ASSAY_ALWAYS_INLINE U8x32 nibbles(const uint8_t* sixteen) {
  U8x32 result;
  std::memcpy(&result.v[0], sixteen, 16);
  result.v[1] = result.v[0] >> 4;
  result.v[0] &= 0xF;
  return result;
}

ASSAY_ALWAYS_INLINE U8x32 look_up(uint64_t low, uint64_t high, U8x32 places) {
  U8x32 result;
  for (int i = 0; i < 32; ++i) {
    const uint8_t place = places.v[i / 16][i % 16];
    const uint64_t half = place < 8 ? low : high;
    result.v[i / 16][i % 16] = static_cast<uint8_t>(half >> (place % 8 * 8));
  }
  return result;
}

template <int64_t kHalf>
ASSAY_ALWAYS_INLINE I32x16 widen(U8x32 a) {
  return load_widened<S8x4>(&a.v[kHalf]);
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return each_quarter<I32x16>([&](int i) { return a.v[i] & b.v[i]; });
}

ASSAY_ALWAYS_INLINE I32x16 bit_and(I32x16 a, int32_t b) {
  return bit_and(a, splat_int(b));
}

ASSAY_ALWAYS_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return each_quarter<I32x16>([&](int i) { return a.v[i] | b.v[i]; });
}

// Integers wrap around, as they do in vector registers: NaN in exp's argument makes them overflow.
ASSAY_ALWAYS_INLINE I32x16 add(I32x16 a, I32x16 b) {
  return each_quarter<I32x16>([&](int i) {
    return reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(a.v[i]) +
                                   reinterpret_cast<U32x4>(b.v[i]));
  });
}

ASSAY_ALWAYS_INLINE I32x16 sub(I32x16 a, I32x16 b) {
  return each_quarter<I32x16>([&](int i) {
    return reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(a.v[i]) -
                                   reinterpret_cast<U32x4>(b.v[i]));
  });
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_left(I32x16 a) {
  return each_quarter<I32x16>(
      [&](int i) { return reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(a.v[i]) << kBits); });
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x16 shift_right(I32x16 a) {
  return each_quarter<I32x16>([&](int i) { return a.v[i] >> kBits; });
}

ASSAY_ALWAYS_INLINE I32x16 add_where(I32x16 a, uint32_t lanes, int32_t value) {
  return each_quarter<I32x16>([&](int i) {
    const auto four = static_cast<int32_t>(lanes >> (4 * i));
    const I32x4 lane_bits = {1, 2, 4, 8};
    return a.v[i] + (((four & lane_bits) == lane_bits) & value);
  });
}

ASSAY_ALWAYS_INLINE F32x16 to_float(I32x16 a) {
  return each_quarter<F32x16>([&](int i) { return __builtin_convertvector(a.v[i], F32x4); });
}

ASSAY_ALWAYS_INLINE I32x16 as_int(F32x16 a) {
  I32x16 result;
  std::memcpy(result.v, a.v, sizeof(result.v));
  return result;
}

ASSAY_ALWAYS_INLINE F32x16 as_float(I32x16 a) {
  F32x16 result;
  std::memcpy(result.v, a.v, sizeof(result.v));
  return result;
}

// {f(0), ..., f(7)}
template <class Function>
ASSAY_ALWAYS_INLINE F64x16 each_pair(Function f) {
  return {{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)}};
}

ASSAY_ALWAYS_INLINE F64x16 splat(double value) {
  return each_pair([&](int) { return F64x2{value, value}; });
}

ASSAY_ALWAYS_INLINE F64x16 load(const double* doubles) {
  F64x16 result;
  std::memcpy(result.v, doubles, sizeof(result.v));
  return result;
}

ASSAY_ALWAYS_INLINE void store(double* out, const F64x16& a) {
  std::memcpy(out, a.v, sizeof(a.v));
}

ASSAY_ALWAYS_INLINE F64x16 to_double(const F32x16& a) {
  return each_pair([&](int i) {
    const F32x4& four = a.v[i / 2];
    const int first = i % 2 * 2;
    return F64x2{static_cast<double>(four[first]), static_cast<double>(four[first + 1])};
  });
}

ASSAY_ALWAYS_INLINE F64x16 load_as_double(const float* floats) {
  return to_double(load(floats));
}

ASSAY_ALWAYS_INLINE F32x16 to_float(const F64x16& a) {
  return each_lane<F32x16>([&](int l) { return static_cast<float>(a.v[l / 2][l % 2]); });
}

ASSAY_ALWAYS_INLINE F64x16 add(const F64x16& a, const F64x16& b) {
  return each_pair([&](int i) { return a.v[i] + b.v[i]; });
}

ASSAY_ALWAYS_INLINE F64x16 sub(const F64x16& a, const F64x16& b) {
  return each_pair([&](int i) { return a.v[i] - b.v[i]; });
}

ASSAY_ALWAYS_INLINE F64x16 mul(const F64x16& a, const F64x16& b) {
  return each_pair([&](int i) { return a.v[i] * b.v[i]; });
}

ASSAY_ALWAYS_INLINE F64x16 div(const F64x16& a, const F64x16& b) {
  return each_pair([&](int i) { return a.v[i] / b.v[i]; });
}

ASSAY_ALWAYS_INLINE F64x16 add_exact_product(const F64x16& a, const F64x16& b, const F64x16& c) {
  return add(mul(a, b), c);
}

ASSAY_ALWAYS_INLINE F64x16 max(const F64x16& a, const F64x16& b) {
  return each_pair([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

ASSAY_ALWAYS_INLINE double sum(const F64x16& a) {
  const F64x2 twos =
      ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
  return twos[0] + twos[1];
}

ASSAY_ALWAYS_INLINE double max_lane(const F64x16& a) {
  const auto greater = [](auto p, auto q) { return p > q ? p : q; };
  const F64x2 twos = greater(greater(greater(a.v[0], a.v[4]), greater(a.v[2], a.v[6])),
                             greater(greater(a.v[1], a.v[5]), greater(a.v[3], a.v[7])));
  return greater(twos[0], twos[1]);
}

}  // namespace assay::portable
