#include "assay/log/number_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "assay/log/decimal_rounding.h"

namespace assay {
namespace {

constexpr uint64_t kTensTo8[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
constexpr int kMaxMantissaDigits = 18;  // fits 64 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A decimal number before it is rounded: mantissa * 10^exponent.
struct Decimal {
  uint64_t mantissa = 0;
  int digits = 0;  // in mantissa, without leading zeros
  int64_t exponent = 0;
  bool exact = true;  // false: digits did not fit
  bool negative = false;
};

// Eight bytes of text, of which the first `run` are digits.
struct DigitWord {
  uint64_t digits;  // each byte minus '0'
  int run;
};

DigitWord load_digits(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  const uint64_t digits = word - 0x3030303030303030U;
  // The high bit of each byte that is not a digit. A borrow from one such byte can only affect the
  // bytes after it, which are not used.
  const uint64_t others = (digits | (digits + 0x7676767676767676U)) & 0x8080808080808080U;
  return {digits, others == 0 ? 8 : std::countr_zero(others) / 8};
}

// The number that the first `run` >= 1 digits make. The bytes are shifted so that the digits end at
// the word's top; pairs, fours and eights are then combined by multiplication.
uint64_t digits_value(uint64_t digits, int run) {
  uint64_t value = digits << (8 * (8 - run));
  value = (value * 10 + (value >> 8)) & 0x00FF00FF00FF00FFU;
  value = (value * 100 + (value >> 16)) & 0x0000FFFF0000FFFFU;
  return (value * 10000 + (value >> 32)) & 0x00000000FFFFFFFFU;
}

// Appends the digits at `at` to the mantissa.
const char* read_digits(const char* at, const char* end, Decimal& decimal, int64_t& count) {
  count = 0;
  while (at < end) {
    auto [digits, run] = load_digits(at);
    if (run > end - at) run = static_cast<int>(end - at);
    if (run == 0) break;
    const uint64_t value = digits_value(digits, run);
    at += run;
    count += run;
    decimal.digits = decimal.mantissa == 0 ? (value == 0 ? 0 : run) : decimal.digits + run;
    if (decimal.digits > kMaxMantissaDigits) {
      decimal.exact = false;
    } else {
      decimal.mantissa = decimal.mantissa * kTensTo8[run] + value;
    }
    if (run < 8) break;
  }
  return at;
}

// Reads the JSON grammar: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?. nullptr if there is no
// number.
const char* read_decimal(const char* at, const char* end, Decimal& decimal) {
  if (at < end && *at == '-') {
    decimal.negative = true;
    ++at;
  }
  int64_t count = 0;
  const char* first = at;
  at = read_digits(at, end, decimal, count);
  if (count == 0 || (count > 1 && *first == '0')) return nullptr;
  if (at < end && *at == '.') {
    at = read_digits(at + 1, end, decimal, count);
    if (count == 0) return nullptr;
    decimal.exponent = -count;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    if (at == end || !is_digit(*at)) return nullptr;
    int64_t exponent = 0;
    for (; at < end && is_digit(*at); ++at) {
      if (exponent < 1'000'000'000'000) exponent = exponent * 10 + (*at - '0');
    }
    decimal.exponent += negative ? -exponent : exponent;
  }
  return at;
}

// Reads -?D.D with one or two digits and nine to sixteen, as sums of a sketch mostly are. nullptr
// if that is not all of the number.
const char* read_long_fraction(const char* at, const char* end, Decimal& decimal) {
  const bool negative = *at == '-';
  const char* whole = at + (negative ? 1 : 0);
  const DigitWord units = load_digits(whole);
  const char* fraction = whole + units.run + 1;
  const DigitWord high = load_digits(fraction);
  const DigitWord low = load_digits(fraction + 8);
  const char* number_end = fraction + 8 + low.run;
  const bool is_such = units.run >= 1 && units.run <= 2 && whole[units.run] == '.' &&
                       high.run == 8 && low.run >= 1 && number_end < end &&
                       (*number_end == ',' || *number_end == ']') &&
                       (units.run == 1 || *whole != '0');
  if (!is_such) return nullptr;
  const uint64_t eights =
      digits_value(units.digits, units.run) * kTensTo8[8] + digits_value(high.digits, 8);
  decimal.mantissa = eights * kTensTo8[low.run] + digits_value(low.digits, low.run);
  decimal.exponent = -8 - low.run;
  decimal.negative = negative;
  return number_end;
}

// Whether an out-of-range number is too large rather than too small.
bool is_large(const char* at, const char* end) {
  if (*at == '-') ++at;
  int64_t magnitude = 0;  // digits before the point, or minus the zeros after it
  bool seen = false;
  bool fraction = false;
  for (; at < end && (is_digit(*at) || *at == '.'); ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    seen = seen || *at != '0';
    if (seen && !fraction) ++magnitude;
    if (!seen && fraction) --magnitude;
  }
  if (at == end) return magnitude > 0;
  ++at;
  const bool negative = *at == '-';
  int64_t exponent = 0;
  for (; at < end; ++at) {
    if (is_digit(*at) && exponent < 1'000'000'000'000) exponent = exponent * 10 + (*at - '0');
  }
  return magnitude + (negative ? -exponent : exponent) > 0;
}

// The double nearest to mantissa / 10^tens, for a mantissa from 2^53 to 2^60 and 1 <= tens <= 22.
// The quotient of doubles is at most one and a half places off: rounding the mantissa moves it by
// up to one, the division by half of one. The remainder, exact in 128 bits, says where to. False
// where the places below are narrower, where one is wider than 1, and halfway between two.
bool nearest_quotient(uint64_t mantissa, int64_t tens, double& value) {
  using Wide = __int128;
  const double estimate = static_cast<double>(mantissa) / kPowersOfTen[tens];
  const auto bits = std::bit_cast<uint64_t>(estimate);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int halvings = 1075 - static_cast<int>(bits >> 52);
  if (halvings < 0 || fraction < 2) return false;
  const Wide power =
      tens > 18 ? Wide{1'000'000'000'000'000'000} * static_cast<int64_t>(kPowersOfTen[tens - 18])
                : Wide{static_cast<int64_t>(kPowersOfTen[tens])};
  const Wide places = static_cast<Wide>(fraction | uint64_t{1} << 52);
  const Wide rest = (static_cast<Wide>(mantissa) << halvings) - places * power;
  const Wide half = power / 2;
  const int step = (rest > half ? 1 : 0) - (rest < -half ? 1 : 0);
  const Wide left = rest - step * power;
  if (left == half || left == -half) return false;
  value = std::bit_cast<double>(bits + static_cast<uint64_t>(step));
  return true;
}

// The double nearest to the number, where products and quotients of exact doubles give it
// (Clinger, "How to read floating point numbers accurately", PLDI 1990).
bool nearest_double(const Decimal& decimal, double& value) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  if (!decimal.exact || decimal.exponent < -22 || decimal.exponent > 22) return false;
  if (decimal.mantissa > kExact) {
    if (decimal.exponent >= 0 || !nearest_quotient(decimal.mantissa, -decimal.exponent, value)) {
      return false;
    }
  } else {
    const auto mantissa = static_cast<double>(decimal.mantissa);
    value = decimal.exponent < 0 ? mantissa / kPowersOfTen[-decimal.exponent]
                                 : mantissa * kPowersOfTen[decimal.exponent];
  }
  if (decimal.negative) value = -value;
  return true;
}

template <typename Float>
NumberEnd read_slowly(const char* at, const char* number_end, bool negative, Float& value) {
  const auto [rest, error] = std::from_chars(at, number_end, value);
  if (error == std::errc::result_out_of_range) {
    if (is_large(at, number_end)) return {number_end, NumberError::kTooLarge};
    value = negative ? -Float{0} : Float{0};
  } else if (error != std::errc() || rest != number_end) {
    return {at, NumberError::kNotANumber};
  }
  return {number_end, NumberError::kNone};
}

}  // namespace

NumberEnd read_number(const char* at, const char* end, float& value) {
  // Nearly every number of a log is -?D.D with one to seven digits and one to eight, so that the
  // mantissa is exact: this path has no branch that depends on the digits.
  const bool negative = *at == '-';
  const char* whole = at + (negative ? 1 : 0);
  const DigitWord units = load_digits(whole);
  const char* point = whole + units.run;
  const DigitWord fraction = load_digits(point + 1);
  const char* number_end = point + 1 + fraction.run;
  const bool usual = units.run >= 1 && units.run <= 7 && *point == '.' && fraction.run >= 1 &&
                     number_end < end && (*number_end == ',' || *number_end == ']') &&
                     (units.run == 1 || *whole != '0');
  if (usual) {
    const uint64_t mantissa = digits_value(units.digits, units.run) * kTensTo8[fraction.run] +
                              digits_value(fraction.digits, fraction.run);
    if (round_decimal(negative, mantissa, fraction.run, value)) {
      return {number_end, NumberError::kNone};
    }
  }
  Decimal decimal;
  number_end = read_decimal(at, end, decimal);
  if (number_end == nullptr) return {at, NumberError::kNotANumber};
  double wide = 0;
  if (nearest_double(decimal, wide) && nearest_float(wide, value)) {
    return {number_end, NumberError::kNone};
  }
  return read_slowly(at, number_end, decimal.negative, value);
}

NumberEnd read_number(const char* at, const char* end, double& value) {
  Decimal decimal;
  const char* number_end = read_long_fraction(at, end, decimal);
  if (number_end == nullptr) number_end = read_decimal(at, end, decimal);
  if (number_end == nullptr) return {at, NumberError::kNotANumber};
  if (nearest_double(decimal, value)) return {number_end, NumberError::kNone};
  return read_slowly(at, number_end, decimal.negative, value);
}

}  // namespace assay
