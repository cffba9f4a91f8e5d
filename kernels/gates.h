#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/half.h"

// The gates of linear attention in double, by additions, products and quotients alone, each rounded
// once: the same bits on the host and on devices. NaN stays.
namespace assay::gates {

// e^x for x from -700 to 700, and beyond as at these. Taylor's polynomial of what is left of x
// without the nearest multiple of ln 2.
ASSAY_ALWAYS_INLINE double exponential(double x) {
  x = -700.0 > x ? -700.0 : x;
  x = 700.0 < x ? 700.0 : x;
  const double magic = 0x1.8p52;  // leaves the nearest integer in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + magic;
  const double n = shifted - magic;
  const double r = (x - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b39p-40;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits = 0;
  uint64_t zero = 0;
  std::memcpy(&bits, &shifted, sizeof(bits));
  std::memcpy(&zero, &magic, sizeof(zero));
  const uint64_t power_bits = (bits - zero + 1023U) << 52U;  // 2^n
  double power = 0.0;
  std::memcpy(&power, &power_bits, sizeof(power));
  return p * power;
}

ASSAY_ALWAYS_INLINE double sigmoid(double x) {
  return 1.0 / (1.0 + exponential(-x));
}

// ln(1 + e^x) is max(x, 0) + ln(1 + y), y = e^-|x|; and that is 2 artanh(s), s = y / (2 + y).
ASSAY_ALWAYS_INLINE double softplus(double x) {
  const double y = exponential(x < 0.0 ? x : -x);
  const double s = y / (2.0 + y);
  const double square = s * s;
  double p = 1.0 / 37.0;  // s is at most 1/3: what follows is below 2^-60
  for (int odd = 35; odd >= 1; odd -= 2) p = p * square + 1.0 / static_cast<double>(odd);
  return (x < 0.0 ? 0.0 : x) + 2.0 * s * p;
}

}  // namespace assay::gates
