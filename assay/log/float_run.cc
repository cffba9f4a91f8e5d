#include "assay/log/float_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "assay/log/decimal_rounding.h"
#include "assay/log/line_reader.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace assay {

#if defined(__x86_64__)
namespace {

constexpr int kLanes = 16;
constexpr int kBlock = 64;
static_assert(kLinePadding >= kBlock);

using Bytes = std::array<uint8_t, kLanes>;

// [n]: all ones in the last n lanes.
constexpr std::array<Bytes, kLanes + 1> last_lanes() {
  std::array<Bytes, kLanes + 1> table{};
  for (int n = 0; n <= kLanes; ++n) {
    for (int i = kLanes - n; i < kLanes; ++i) {
      table[static_cast<size_t>(n)][static_cast<size_t>(i)] = 0xFF;
    }
  }
  return table;
}

// [dot]: the shuffle that takes lane `dot` out and moves those before it up by one.
constexpr std::array<Bytes, kLanes> without_lane() {
  std::array<Bytes, kLanes> table{};
  for (int dot = 0; dot < kLanes; ++dot) {
    for (int i = 0; i < kLanes; ++i) {
      const int from = i <= dot ? i - 1 : i;
      table[static_cast<size_t>(dot)][static_cast<size_t>(i)] =
          from < 0 ? 0x80 : static_cast<uint8_t>(from);
    }
  }
  return table;
}

alignas(kLanes) constexpr std::array<Bytes, kLanes + 1> kLastLanes = last_lanes();
alignas(kLanes) constexpr std::array<Bytes, kLanes> kWithoutLane = without_lane();

__attribute__((target("avx2"))) inline __m128i load(const Bytes& bytes) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data()));
}

// The number that 16 digits make, the first in lane 0, as two of eight digits: pairs, fours and
// eights by products of neighbours.
__attribute__((target("avx2"))) inline __m128i two_eights(__m128i digits) {
  const __m128i pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010A));  // * 10, * 1
  const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x00010064));  // * 100, * 1
  const __m128i packed = _mm_packus_epi32(fours, fours);
  return _mm_madd_epi16(packed, _mm_set1_epi32(0x00012710));  // * 10000, * 1
}

// Numbers that have been read but not rounded.
struct Batch {
  static constexpr size_t kSize = 64;
  std::array<uint64_t, kSize> digits;  // the higher eight in the lower half, the lower eight
  std::array<double, kSize> power;     // by which they are divided
  std::array<uint32_t, kSize> sign;    // the sign bit of the float
  std::array<const char*, kSize + 1> begin;
};

// Reads the number between `begin` and the comma at `stop` into a place of the batch. False where
// it is not of the usual form. Nothing here branches on what usual numbers differ in.
__attribute__((target("avx2"))) inline bool read_usual(const char* begin, const char* stop,
                                                       Batch& batch, size_t place) {
  begin += *begin == ' ' ? 1 : 0;
  const uint32_t negative = *begin == '-' ? 1 : 0;
  begin += negative;
  const auto length = static_cast<size_t>(stop - begin);
  if (length - 3 > kLanes - 3) return false;
  const __m128i text =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(stop - kLanes));  // ends with the number
  const __m128i digits = _mm_sub_epi8(text, _mm_set1_epi8('0'));
  const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits);
  const auto others = ~static_cast<uint32_t>(_mm_movemask_epi8(is_digit)) &
                      (0xFFFFU << (kLanes - length)) & 0xFFFFU;
  if (others == 0 || (others & (others - 1)) != 0) return false;
  const int dot = std::countr_zero(others);
  const int whole_digits = dot - kLanes + static_cast<int>(length);
  const bool leading_zero = static_cast<int>(*begin == '0') & static_cast<int>(whole_digits > 1);
  if (stop[dot - kLanes] != '.' || whole_digits == 0 || dot == kLanes - 1 || leading_zero) {
    return false;
  }
  const __m128i kept = _mm_and_si128(digits, load(kLastLanes[length]));
  const __m128i eights =
      two_eights(_mm_shuffle_epi8(kept, load(kWithoutLane[static_cast<size_t>(dot)])));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(&batch.digits[place]), eights);
  batch.power[place] = kPowersOfTen[kLanes - 1 - dot];
  batch.sign[place] = negative << 31;
  return true;
}

// Rounds the batch, four quotients at once. All are correctly rounded doubles between 1e-14 and
// 1e14, or zero; one that lies exactly between two floats must be read again with all its digits:
// returns the place of the first such, or `count`. Writes whole fours.
__attribute__((target("avx2"))) inline size_t round_batch(const Batch& batch, size_t count,
                                                          float* values) {
  const __m256i halves_apart = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m256i rest_mask = _mm256_set1_epi64x(0x1FFFFFFF);
  const __m256i half = _mm256_set1_epi64x(0x10000000);
  uint64_t midway = 0;
  for (size_t i = 0; i < count; i += 4) {
    const __m256i digits = _mm256_permutevar8x32_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&batch.digits[i])), halves_apart);
    const __m256d high = _mm256_cvtepi32_pd(_mm256_castsi256_si128(digits));
    const __m256d low = _mm256_cvtepi32_pd(_mm256_extracti128_si256(digits, 1));
    const __m256d mantissa = _mm256_add_pd(_mm256_mul_pd(high, _mm256_set1_pd(1e8)), low);
    const __m256d quotient = _mm256_div_pd(mantissa, _mm256_loadu_pd(&batch.power[i]));
    const __m256i rest = _mm256_and_si256(_mm256_castpd_si256(quotient), rest_mask);
    const __m256d is_midway = _mm256_castsi256_pd(_mm256_cmpeq_epi64(rest, half));
    midway |= static_cast<uint64_t>(_mm256_movemask_pd(is_midway)) << i;
    const __m128i sign = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&batch.sign[i]));
    _mm_storeu_ps(values + i, _mm_or_ps(_mm256_cvtpd_ps(quotient), _mm_castsi128_ps(sign)));
  }
  if (midway == 0) return count;
  return std::min(count, static_cast<size_t>(std::countr_zero(midway)));
}

__attribute__((target("avx2"))) inline uint64_t commas(const char* at) {
  const __m256i comma = _mm256_set1_epi8(',');
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + kBlock / 2));
  const auto low_bits = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, comma)));
  const auto high_bits =
      static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, comma)));
  return low_bits | (static_cast<uint64_t>(high_bits) << 32);
}

// Where the numbers end: the next commas, at most kSize. Found 64 bytes at a time, so that where a
// number begins does not wait for the one before it to be read.
__attribute__((target("avx2"))) inline size_t find_commas(
    const char* at, const char* end, std::array<const char*, Batch::kSize + kBlock + 8>& stops) {
  size_t count = 0;
  for (const char* block = at; block < end && count < Batch::kSize; block += kBlock) {
    uint64_t ends = commas(block);
    if (end - block < kBlock) ends &= (uint64_t{1} << (end - block)) - 1;
    const auto found = static_cast<size_t>(std::popcount(ends));
    for (size_t i = 0; i < found; i += 8) {  // eight at once: one branch that is easily foretold
      for (size_t j = 0; j < 8; ++j) {
        stops[count + i + j] = block + std::countr_zero(ends);
        ends &= ends - 1;
      }
    }
    count += found;
  }
  return std::min(count, Batch::kSize);
}

__attribute__((target("avx2"))) FloatRun read_avx2(const char* at, const char* end,
                                                   std::span<float> values) {
  std::array<const char*, Batch::kSize + kBlock + 8> stops;
  Batch batch;
  batch.digits.fill(0);
  batch.power.fill(1);
  size_t count = 0;
  while (values.size() - count >= kFloatRunRoom) {
    const size_t found = find_commas(at, end, stops);
    size_t read = 0;
    batch.begin[0] = at;
    while (read < found && read_usual(batch.begin[read], stops[read], batch, read)) {
      batch.begin[read + 1] = stops[read] + 1;
      ++read;
    }
    const size_t rounded = round_batch(batch, read, values.data() + count);
    count += rounded;
    at = batch.begin[rounded];
    if (rounded < Batch::kSize) break;
  }
  return {at, count};
}

}  // namespace
#endif

FloatRun read_usual_floats(const char* at, const char* end, std::span<float> values) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return read_avx2(at, end, values);
#endif
  (void)end;
  (void)values;
  return {at, 0};
}

}  // namespace assay
