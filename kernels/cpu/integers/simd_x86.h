#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace assay::ASSAY_ISA {

struct I32x8 {
  __m256i v;
};

struct F32x8 {
  __m256 v;
};

// sum + the products of four unsigned codes and four signed bytes in each lane. With kWide codes
// are up to 255, else up to 127: then two products fit into the 16 bits that AVX2 adds them in.
template <bool kWide>
ASSAY_ALWAYS_INLINE __m256i add_products(__m256i sum, __m256i codes, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(sum, codes, x);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, codes, x);
#else
  const __m256i ones = _mm256_set1_epi16(1);
  const auto four = [&](__m256i c) { return _mm256_madd_epi16(_mm256_maddubs_epi16(c, x), ones); };
  if constexpr (!kWide) return _mm256_add_epi32(sum, four(codes));
  const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi8(0x7F));
  const __m256i top = _mm256_and_si256(_mm256_srli_epi16(codes, 7), _mm256_set1_epi8(1));
  return _mm256_add_epi32(sum, _mm256_add_epi32(four(low), _mm256_slli_epi32(four(top), 7)));
#endif
}

template <bool kWide>
ASSAY_ALWAYS_INLINE I32x8 dot32(U8x32 codes, const int8_t* x) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return {add_products<kWide>(_mm256_setzero_si256(), codes.v, bytes)};
}

// The sums over the first four lanes of a, b, c and d, then those over their last four.
ASSAY_ALWAYS_INLINE I32x8 half_sums(I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  const auto added = [](__m256i even, __m256i odd) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(even, odd), _mm256_unpackhi_epi32(even, odd));
  };
  return {added(added(a.v, c.v), added(b.v, d.v))};
}

ASSAY_ALWAYS_INLINE I32x8 load_ints(const int32_t* ints) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(ints))};
}

ASSAY_ALWAYS_INLINE I32x8 sub(I32x8 a, I32x8 b) {
  return {_mm256_sub_epi32(a.v, b.v)};
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x8 shift_left(I32x8 a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}

ASSAY_ALWAYS_INLINE F32x8 to_float(I32x8 a) {
  return {_mm256_cvtepi32_ps(a.v)};
}

ASSAY_ALWAYS_INLINE F32x8 zero8() {
  return {_mm256_setzero_ps()};
}

ASSAY_ALWAYS_INLINE F32x8 splat8(float value) {
  return {_mm256_set1_ps(value)};
}

ASSAY_ALWAYS_INLINE F32x8 load8(const float* floats) {
  return {_mm256_loadu_ps(floats)};
}

ASSAY_ALWAYS_INLINE F32x8 set8(const float (&v)[8]) {
  return {_mm256_setr_ps(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])};
}

ASSAY_ALWAYS_INLINE void store8(float* out, F32x8 a) {
  _mm256_storeu_ps(out, a.v);
}

ASSAY_ALWAYS_INLINE F32x8 mul(F32x8 a, F32x8 b) {
  return {_mm256_mul_ps(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}

ASSAY_ALWAYS_INLINE F32x8 add(F32x8 a, F32x8 b) {
  return {_mm256_add_ps(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE F32x8 first_four_twice(F32x8 a) {
  return {_mm256_permute2f128_ps(a.v, a.v, 0x00)};
}

ASSAY_ALWAYS_INLINE F32x8 last_four_twice(F32x8 a) {
  return {_mm256_permute2f128_ps(a.v, a.v, 0x11)};
}

// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))
ASSAY_ALWAYS_INLINE float sum(F32x8 a) {
  const __m128 fours = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
  return _mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos)));
}

// Eight bytes as lanes.
ASSAY_ALWAYS_INLINE I32x8 widen8(const uint8_t* bytes) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)))};
}

ASSAY_ALWAYS_INLINE U8x32 bit_xor(U8x32 a, U8x32 b) {
  return {_mm256_xor_si256(a.v, b.v)};
}

// Codes below 16, and 16 more in each byte i whose bit i is set.
ASSAY_ALWAYS_INLINE U8x32 add_sixteen_where(uint32_t bits, U8x32 codes) {
#if defined(__AVX512BW__)
  return {_mm256_mask_add_epi8(codes.v, bits, codes.v, _mm256_set1_epi8(16))};
#else
  const __m256i places = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(bits)), places);
  const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ULL));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, each), each);
  return {_mm256_or_si256(codes.v, _mm256_and_si256(set, _mm256_set1_epi8(16)))};
#endif
}

// nibbles() as add_products() takes them fastest: where it takes all codes as wide ones, the last
// sixteen are left in place, 16 times too large, and all_sums_of_nibbles() divides their products.
ASSAY_ALWAYS_INLINE U8x32 product_nibbles(const uint8_t* sixteen) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  constexpr int64_t kLow = 0x0F0F0F0F0F0F0F0F;
  return {_mm256_and_si256(sixteen_twice(sixteen).v, _mm256_setr_epi64x(kLow, kLow, ~kLow, ~kLow))};
#else
  return nibbles(sixteen);
#endif
}

ASSAY_ALWAYS_INLINE float f16_at(const uint8_t* half) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof(bits));
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

// Eight pairs of halves, as they stand at the start of a block: the first ones, the second ones.
ASSAY_ALWAYS_INLINE void split_f16_pairs(const uint32_t (&pairs)[8], F32x8& first, F32x8& second) {
  const auto floats = [&](int at) {
    const auto pair = [&](int i) { return static_cast<int32_t>(pairs[at + i]); };
    return _mm256_cvtph_ps(_mm_setr_epi32(pair(0), pair(1), pair(2), pair(3)));
  };
  const auto ordered = [](__m256 a) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xD8));
  };
  const __m256 low = floats(0);
  const __m256 high = floats(4);
  first = {ordered(_mm256_shuffle_ps(low, high, 0x88))};
  second = {ordered(_mm256_shuffle_ps(low, high, 0xDD))};
}

// Signed bytes of the 16 halves of eight blocks, from their order to that of half_sums.
ASSAY_ALWAYS_INLINE void sort_halves(const int8_t* sixteen, I32x8 (&halves)[2]) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen));
  const __m128i ordered = _mm_shuffle_epi8(bytes, order);
  halves[0] = {_mm256_cvtepi8_epi32(ordered)};
  halves[1] = {_mm256_cvtepi8_epi32(_mm_srli_si128(ordered, 8))};
}

// Eight rows of 32 bytes at `rows`, `stride` apart: four bytes of each to out[0] + at, the next
// four of each to out[1] + at, and so on.
ASSAY_ALWAYS_INLINE void transpose8(const uint8_t* rows, size_t stride, size_t at,
                                    uint8_t* const (&out)[8]) {
  __m256i pairs[8];
  __m256i fours[8];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const __m256i a = load_bytes(rows + 2 * i * stride).v;
    const __m256i b = load_bytes(rows + (2 * i + 1) * stride).v;
    pairs[2 * i] = _mm256_unpacklo_epi32(a, b);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(a, b);
  }
#pragma GCC unroll 2
  for (size_t i = 0; i < 8; i += 4) {  // words 0 and 4, 1 and 5, ... of four rows
    fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  const auto store = [](uint8_t* to, __m256i a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
  };
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    store(out[i] + at, _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20));
    store(out[i + 4] + at, _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31));
  }
}

// The same of four rows.
ASSAY_ALWAYS_INLINE void transpose4(const uint8_t* rows, size_t stride, size_t at,
                                    uint8_t* const (&out)[8]) {
  const auto row = [&](size_t r) { return load_bytes(rows + r * stride).v; };
  const __m256i low[2] = {_mm256_unpacklo_epi32(row(0), row(1)),
                          _mm256_unpacklo_epi32(row(2), row(3))};
  const __m256i high[2] = {_mm256_unpackhi_epi32(row(0), row(1)),
                           _mm256_unpackhi_epi32(row(2), row(3))};
  const __m256i fours[4] = {
      _mm256_unpacklo_epi64(low[0], low[1]), _mm256_unpackhi_epi64(low[0], low[1]),
      _mm256_unpacklo_epi64(high[0], high[1]), _mm256_unpackhi_epi64(high[0], high[1])};
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const auto store = [&](uint8_t* to, __m128i a) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), a);
    };
    store(out[i], _mm256_castsi256_si128(fours[i]));
    store(out[i + 4], _mm256_extracti128_si256(fours[i], 1));
  }
}

// sums + the products of the two numbers of 16 bits in each lane.
ASSAY_ALWAYS_INLINE __m256i add_pairs(__m256i sums, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__)
  return _mm256_dpwssd_epi32(sums, a, b);
#elif defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sums, a, b);
#else
  return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
#endif
}

// sums + the products of the low 16 bits of each lane's bits with x[8], of which the high 16 are 0.
ASSAY_ALWAYS_INLINE I32x8 add_low_products(I32x8 sums, F32x8 a, const uint32_t* x) {
  return {add_pairs(sums.v, _mm256_castps_si256(a.v),
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
}

// The sums over all lanes of each of the eight.
ASSAY_ALWAYS_INLINE I32x8 all_sums(const I32x8 (&eight)[8]) {
  const __m256i first = half_sums(eight[0], eight[1], eight[2], eight[3]).v;
  const __m256i last = half_sums(eight[4], eight[5], eight[6], eight[7]).v;
  return {_mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                           _mm256_permute2x128_si256(first, last, 0x31))};
}

// Likewise of products of product_nibbles().
ASSAY_ALWAYS_INLINE I32x8 all_sums_of_nibbles(const I32x8 (&eight)[8]) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
  const __m256i first = half_sums(eight[0], eight[1], eight[2], eight[3]).v;
  const __m256i last = half_sums(eight[4], eight[5], eight[6], eight[7]).v;
  const __m256i high = _mm256_permute2x128_si256(first, last, 0x31);
  return {
      _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20), _mm256_srai_epi32(high, 4))};
#else
  return all_sums(eight);
#endif
}

ASSAY_ALWAYS_INLINE F32x8 load8_f16(const uint8_t* halves) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)))};
}

ASSAY_ALWAYS_INLINE F32x8 load8_bf16(const uint8_t* halves) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}

// Of each of eight blocks of 32 numbers of 16 bits, of which the first n are read: the largest
// without its sign bit. Of floats, that is the largest absolute value.
ASSAY_ALWAYS_INLINE I32x8 largest_magnitudes(const uint8_t* blocks, int64_t n) {
  const __m256i magnitude = _mm256_set1_epi16(0x7FFF);
  __m256i of[8];
#pragma GCC unroll 8
  for (int64_t p = 0; p < 8; ++p) {
    of[p] = _mm256_setzero_si256();
    if (p >= n) continue;
    of[p] = _mm256_max_epu16(_mm256_and_si256(load_bytes(blocks + 64 * p).v, magnitude),
                             _mm256_and_si256(load_bytes(blocks + 64 * p + 32).v, magnitude));
  }
  __m256i eights[4];  // of blocks p and p + 4
#pragma GCC unroll 4
  for (int64_t p = 0; p < 4; ++p) {
    eights[p] = _mm256_max_epu16(_mm256_permute2x128_si256(of[p], of[p + 4], 0x20),
                                 _mm256_permute2x128_si256(of[p], of[p + 4], 0x31));
  }
  const auto fours = [&](int64_t p) {
    return _mm256_max_epu16(_mm256_unpacklo_epi64(eights[p], eights[p + 2]),
                            _mm256_unpackhi_epi64(eights[p], eights[p + 2]));
  };
  const __m256i even = fours(0);
  const __m256i odd = fours(1);
  const __m256i low = _mm256_unpacklo_epi32(even, odd);
  const __m256i high = _mm256_unpackhi_epi32(even, odd);
  const __m256i twos =
      _mm256_max_epu16(_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high));
  return {_mm256_and_si256(_mm256_max_epu16(twos, _mm256_srli_epi32(twos, 16)),
                           _mm256_set1_epi32(0xFFFF))};
}

// The bits of the largest of |x[32]|, where NaN is larger than infinity.
ASSAY_ALWAYS_INLINE uint32_t largest_magnitude(const float* x) {
  const auto eight = [&](int i) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 8 * i));
    return _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  };
  const __m256i eights =
      _mm256_max_epi32(_mm256_max_epi32(eight(0), eight(1)), _mm256_max_epi32(eight(2), eight(3)));
  const __m128i fours =
      _mm_max_epi32(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
  const __m128i twos = _mm_max_epi32(fours, _mm_shuffle_epi32(fours, 0x4E));
  return static_cast<uint32_t>(
      _mm_cvtsi128_si32(_mm_max_epi32(twos, _mm_shuffle_epi32(twos, 0xB1))));
}

ASSAY_ALWAYS_INLINE I32x8 splat_int8(int32_t value) {
  return {_mm256_set1_epi32(value)};
}

ASSAY_ALWAYS_INLINE I32x8 add(I32x8 a, I32x8 b) {
  return {_mm256_add_epi32(a.v, b.v)};
}

ASSAY_ALWAYS_INLINE I32x8 max(I32x8 a, I32x8 b) {
  return {_mm256_max_epi32(a.v, b.v)};
}

template <int kBits>
ASSAY_ALWAYS_INLINE I32x8 shift_right(I32x8 a) {
  return {_mm256_srli_epi32(a.v, kBits)};
}

// The floats with these bits.
ASSAY_ALWAYS_INLINE F32x8 as_floats(I32x8 bits) {
  return {_mm256_castsi256_ps(bits.v)};
}

// Likewise, and NaN where a is b.
ASSAY_ALWAYS_INLINE F32x8 float_or_nan(I32x8 bits, I32x8 a, int32_t b) {
  const __m256i equal = _mm256_cmpeq_epi32(a.v, _mm256_set1_epi32(b));
  const __m256i nan = _mm256_set1_epi32(0x7FC00000);
  return {_mm256_castsi256_ps(_mm256_blendv_epi8(bits.v, nan, equal))};
}

// Tokens at once with sixteen rows, as many as there are registers for: of 8 bits for the sums of
// a block and of two lanes. Those of 14 bits, whose rows take twice as many bytes, gain more from
// being read for more tokens than from sums that are not stored.
#if defined(__AVX512VNNI__)
constexpr int64_t kInt8Tokens = 8;
constexpr int64_t kInt16Tokens = 12;
#else
constexpr int64_t kInt8Tokens = 2;
constexpr int64_t kInt16Tokens = 2;
#endif
constexpr bool kHasCodeForEachLength = true;

#if defined(__AVX512VNNI__)
template <bool kWide>
ASSAY_ALWAYS_INLINE I32x16 add_row_products(I32x16 sums, const uint8_t* codes, const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  return {_mm512_dpbusd_epi32(sums.v, _mm512_loadu_si512(codes), _mm512_set1_epi32(four))};
}

// Whole numbers nearest to a, halves to even.
ASSAY_ALWAYS_INLINE I32x16 to_nearest(F32x16 a) {
  return {_mm512_maskz_cvtps_epi32(kAllLanes, a.v)};
}

ASSAY_ALWAYS_INLINE __m128i low_bytes(I32x16 a) {
  return _mm512_maskz_cvtepi32_epi8(kAllLanes, a.v);
}

// Sixteen pairs of whole numbers of 16 bits.
struct I16x32 {
  __m512i v;
};

// Of each lane's bits the low 16: those of `first`, then those of `second`.
ASSAY_ALWAYS_INLINE I16x32 pair_up(F32x16 first, F32x16 second) {
  const __m512i high = _mm512_maskz_slli_epi32(kAllLanes, _mm512_castps_si512(second.v), 16);
  return {_mm512_mask_mov_epi16(_mm512_castps_si512(first.v), 0xAAAAAAAAU, high)};
}

ASSAY_ALWAYS_INLINE void store_pairs(void* out, I16x32 a) {
  _mm512_storeu_si512(out, a.v);
}

// Lane r: sums + the products of the pair at pairs + 2r with that at x.
ASSAY_ALWAYS_INLINE I32x16 add_pair_products(I32x16 sums, const uint8_t* pairs, const uint8_t* x) {
  int32_t pair;
  std::memcpy(&pair, x, sizeof(pair));
  return {_mm512_dpwssd_epi32(sums.v, _mm512_loadu_si512(pairs), _mm512_set1_epi32(pair))};
}
#else
// Lane r: sums + the products of four codes of row r, at codes + 4r, with x[4].
template <bool kWide>
ASSAY_ALWAYS_INLINE I32x16 add_row_products(I32x16 sums, const uint8_t* codes, const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  const __m256i all = _mm256_set1_epi32(four);
  const auto* rows = reinterpret_cast<const __m256i*>(codes);
  return {add_products<kWide>(sums.lo, _mm256_loadu_si256(rows), all),
          add_products<kWide>(sums.hi, _mm256_loadu_si256(rows + 1), all)};
}

ASSAY_ALWAYS_INLINE I32x16 to_nearest(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}

ASSAY_ALWAYS_INLINE __m128i low_bytes(I32x16 a) {
  const __m256i low = _mm256_set1_epi32(0xFF);
  const __m256i words =
      _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
}

struct I16x32 {
  __m256i lo;
  __m256i hi;
};

ASSAY_ALWAYS_INLINE __m256i low_halves(__m256 first, __m256 second) {
  return _mm256_blend_epi16(_mm256_castps_si256(first),
                            _mm256_slli_epi32(_mm256_castps_si256(second), 16), 0xAA);
}

ASSAY_ALWAYS_INLINE I16x32 pair_up(F32x16 first, F32x16 second) {
  return {low_halves(first.lo, second.lo), low_halves(first.hi, second.hi)};
}

ASSAY_ALWAYS_INLINE void store_pairs(void* out, I16x32 a) {
  auto* const halves = static_cast<__m256i*>(out);
  _mm256_storeu_si256(halves, a.lo);
  _mm256_storeu_si256(halves + 1, a.hi);
}

ASSAY_ALWAYS_INLINE I32x16 add_pair_products(I32x16 sums, const uint8_t* pairs, const uint8_t* x) {
  int32_t pair;
  std::memcpy(&pair, x, sizeof(pair));
  const __m256i all = _mm256_set1_epi32(pair);
  const auto* halves = reinterpret_cast<const __m256i*>(pairs);
  return {add_pairs(sums.lo, _mm256_loadu_si256(halves), all),
          add_pairs(sums.hi, _mm256_loadu_si256(halves + 1), all)};
}
#endif

// The low bytes of the first, then those of the second.
ASSAY_ALWAYS_INLINE void store_low_bytes(int8_t* out, I32x16 first, I32x16 second) {
  store_bytes(reinterpret_cast<uint8_t*>(out),
              {_mm256_setr_m128i(low_bytes(first), low_bytes(second))});
}

}  // namespace assay::ASSAY_ISA
