#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/quantize/blocks.h"

// Blocks of 32 elements, as the format's reference stores them; the fields of each are named in
// kernels/reference/dequantize.cc.

namespace assay {
namespace {

constexpr int kElements = 32;

void store_f16(uint8_t* bytes, float value) {
  const uint16_t half = f16_from_float(value);
  std::memcpy(bytes, &half, sizeof(half));
}

float inverse(float d) {
  return d == 0.0F ? 0.0F : 1.0F / d;
}

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

}  // namespace assay
