#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace assay {

// The powers of ten that a double holds exactly.
inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Rounds a correctly rounded double to float. False if that could round twice: when the double lies
// exactly between two floats, or the float is denormal.
inline bool nearest_float(double wide, float& value) {
  const double magnitude = std::abs(wide);
  const bool midway = (std::bit_cast<uint64_t>(wide) & 0x1FFFFFFFU) == 0x10000000U;
  if (midway || (magnitude < static_cast<double>(std::numeric_limits<float>::min()) && wide != 0) ||
      magnitude > static_cast<double>(std::numeric_limits<float>::max())) {
    return false;
  }
  value = static_cast<float>(wide);
  return true;
}

// mantissa / 10^fraction_digits with its sign as the nearest float, for a mantissa of at most 2^53
// and at most 22 digits. False if that needs more than a double's precision.
inline bool round_decimal(bool negative, uint64_t mantissa, int fraction_digits, float& value) {
  const double wide =
      static_cast<double>(static_cast<int64_t>(mantissa)) / kPowersOfTen[fraction_digits];
  if (!nearest_float(wide, value)) return false;
  value = negative ? -value : value;
  return true;
}

}  // namespace assay
