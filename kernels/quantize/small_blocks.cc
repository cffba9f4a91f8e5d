#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/coded_types.h"
#include "kernels/quantize/blocks.h"

// Blocks of 32 or 64 elements, as the format's reference stores them; the fields of each are named
// in kernels/reference/dequantize.cc.

namespace assay {
namespace {

constexpr int kElements = 32;

// The value of the greatest magnitude, with its sign; the first of equals.
float peak(const float* in) {
  float found = in[0];
  for (int i = 1; i < kElements; ++i) {
    if (std::fabs(in[i]) > std::fabs(found)) found = in[i];
  }
  return found;
}

// Codes 0 to `most`: in * scale + shift, cut to a whole number.
struct Codes {
  int code[kElements];

  Codes() = default;
  Codes(const float* in, float offset, float scale, float shift, int most) {
    for (int i = 0; i < kElements; ++i) {
      code[i] = std::min(most, static_cast<int>((in[i] - offset) * scale + shift));
    }
  }

  // Four low bits of two codes a byte: element i and element i + 16.
  void store_low_bits(uint8_t* bytes) const {
    for (int i = 0; i < 16; ++i) {
      bytes[i] = static_cast<uint8_t>((code[i] & 0xF) | (code[i + 16] & 0xF) << 4);
    }
  }

  void store_fifth_bits(uint8_t* bytes) const {
    uint32_t bits = 0;
    for (int i = 0; i < kElements; ++i) {
      bits |= static_cast<uint32_t>(code[i] >> 4 & 1) << static_cast<uint32_t>(i);
    }
    std::memcpy(bytes, &bits, sizeof(bits));
  }
};

// Symmetric around zero: the peak gets the least code, code `half` stands for zero.
Codes symmetric(const float* in, int half, uint8_t* d_bytes) {
  const float d = peak(in) / static_cast<float>(-half);
  store_f16(d_bytes, d);
  return {in, 0.0F, inverse(d), static_cast<float>(half) + 0.5F, 2 * half - 1};
}

// From the least value, which gets code 0, to the greatest, which gets `most`.
Codes from_minimum(const float* in, int most, uint8_t* d_bytes, uint8_t* m_bytes) {
  const auto [low, high] = std::minmax_element(in, in + kElements);
  const float d = (*high - *low) / static_cast<float>(most);
  store_f16(d_bytes, d);
  store_f16(m_bytes, *low);
  return {in, *low, inverse(d), 0.5F, most};
}

// The nearest float of four bits, in units of half its scale; of two the first, and zero without a
// sign.
int nearest_float4(float x, float half) {
  constexpr int kMagnitudes[] = {0, 1, 2, 3, 4, 6, 8, 12};
  const auto value = [&](int code) {
    const auto magnitude = static_cast<float>(kMagnitudes[code % 8]);
    return half * (code < 8 ? magnitude : -magnitude);
  };
  int best = 0;
  for (int code = 1; code < 16; ++code) {
    if (std::fabs(value(code) - x) < std::fabs(value(best) - x)) best = code;
  }
  return best;
}

// A float with four bits of exponent and three of mantissa, no sign; ties go up. As in the
// reference, all from 256 on are 448.
uint8_t float8_code(float x) {
  if (!(x > 0.0F)) return 0;
  if (x < 0x1p-6F) return static_cast<uint8_t>(std::min(7, static_cast<int>(x * 512.0F + 0.5F)));
  const int exponent = std::ilogb(x);
  if (exponent >= 8) return 0x7E;
  const int eighths = static_cast<int>(std::ldexp(x, 3 - exponent) + 0.5F);  // 8 to 16
  return static_cast<uint8_t>(std::min(0x7E, (exponent + 7) * 8 + eighths - 8));
}

}  // namespace

void quantize_q4_0_block(const float* in, uint8_t* out) {
  symmetric(in, 8, out).store_low_bits(out + 2);
}

void quantize_q4_1_block(const float* in, uint8_t* out) {
  from_minimum(in, 15, out, out + 2).store_low_bits(out + 4);
}

void quantize_q5_0_block(const float* in, uint8_t* out) {
  const Codes codes = symmetric(in, 16, out);
  codes.store_fifth_bits(out + 2);
  codes.store_low_bits(out + 6);
}

void quantize_q5_1_block(const float* in, uint8_t* out) {
  const Codes codes = from_minimum(in, 31, out, out + 2);
  codes.store_fifth_bits(out + 4);
  codes.store_low_bits(out + 8);
}

void quantize_q8_0_block(const float* in, uint8_t* out) {
  const float d = std::fabs(peak(in)) / 127.0F;
  const float scale = inverse(d);
  store_f16(out, d);
  // roundf() takes ties away from zero, as the reference does.
  for (int i = 0; i < kElements; ++i) {
    out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(in[i] * scale)));
  }
}

// The peak is below 8 times the scale: codes stand for up to 6 of it, and this may cut it off.
void quantize_mxfp4_block(const float* in, uint8_t* out) {
  const float largest = std::fabs(peak(in));
  const int exponent = largest > 0.0F ? std::max(0, std::ilogb(largest) - 2 + 127) : 0;
  out[0] = static_cast<uint8_t>(exponent);
  const float half = std::ldexp(1.0F, exponent - 128);
  Codes codes;
  for (int i = 0; i < kElements; ++i) codes.code[i] = nearest_float4(in[i], half);
  codes.store_low_bits(out + 1);
}

// Each 16 elements have a scale, with which the peak is 6.
void quantize_nvfp4_block(const float* in, uint8_t* out) {
  constexpr int kPart = 16;
  for (int part = 0; part < 4; ++part) {
    const float* x = in + part * kPart;
    float largest = 0.0F;
    for (int i = 0; i < kPart; ++i) largest = std::max(largest, std::fabs(x[i]));
    out[part] = float8_code(largest / 6.0F);
    const float half = coded::NVFP4::scale(out, part);
    for (int i = 0; i < 8; ++i) {
      out[4 + part * 8 + i] =
          static_cast<uint8_t>(nearest_float4(x[i], half) | nearest_float4(x[i + 8], half) << 4);
    }
  }
}

}  // namespace assay
