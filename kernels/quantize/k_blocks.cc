#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/quantize/blocks.h"
#include "kernels/quantize/fit.h"

// Blocks of 256 elements in sub-blocks with quantised scales; the fields of each are named in
// kernels/reference/dequantize.cc.

namespace assay {
namespace {

constexpr int kElements = 256;

using Codes = std::array<uint8_t, kElements>;

int code_of(float value, float unit, int low, int high) {
  if (unit == 0.0F) return std::clamp(0, low, high);
  return static_cast<int>(
      nearest_code(value / unit, static_cast<float>(low), static_cast<float>(high)));
}

// A block whose sub-blocks of `Length` elements are scale * code - minimum.
template <int Length>
struct AffineBlock {
  static constexpr int kParts = kElements / Length;
  std::array<int, kParts> scale;
  std::array<int, kParts> minimum;
  Codes code;

  // Codes 0 to `max_code`, scales and minimums 0 to `max_scale`, their units stored at `d` and
  // `m`.
  AffineBlock(const float* in, int max_code, int max_scale, uint8_t* d, uint8_t* m) {
    const auto most = static_cast<float>(max_code);
    std::array<AffineFit, kParts> fits;
    float scales = 0.0F;
    float offsets = 0.0F;
    for (size_t part = 0; part < kParts; ++part) {
      fits[part] = fit_affine<Length>(in + part * Length, most);
      scales = std::max(scales, fits[part].scale);
      offsets = std::max(offsets, fits[part].offset);
    }
    const float unit = store_f16(d, scales / static_cast<float>(max_scale));
    const float minimum_unit = store_f16(m, offsets / static_cast<float>(max_scale));
    for (size_t part = 0; part < kParts; ++part) {
      scale[part] = code_of(fits[part].scale, unit, 0, max_scale);
      minimum[part] = code_of(fits[part].offset, minimum_unit, 0, max_scale);
      const float step = unit * static_cast<float>(scale[part]);
      const float offset = minimum_unit * static_cast<float>(minimum[part]);
      const float per_step = inverse(step);
      for (size_t i = part * Length; i < (part + 1) * Length; ++i) {
        code[i] = static_cast<uint8_t>(nearest_code((in[i] + offset) * per_step, 0.0F, most));
      }
    }
  }
};

// A block whose sub-blocks of 16 elements are scale * (code - half).
struct SymmetricBlock {
  static constexpr int kLength = 16;
  static constexpr int kParts = kElements / kLength;
  std::array<int, kParts> scale;
  Codes code;

  // Codes 0 to 2 * half - 1, scales -half_scale to half_scale - 1, their unit stored at `d`.
  SymmetricBlock(const float* in, int half_code, int half_scale, uint8_t* d) {
    const auto half = static_cast<float>(half_code);
    std::array<float, kParts> fits;
    float peak = 0.0F;
    for (size_t part = 0; part < kParts; ++part) {
      fits[part] = fit_symmetric<kLength>(in + part * kLength, half);
      if (std::fabs(fits[part]) > std::fabs(peak)) peak = fits[part];
    }
    const float unit = store_f16(d, peak / static_cast<float>(-half_scale));
    for (size_t part = 0; part < kParts; ++part) {
      scale[part] = code_of(fits[part], unit, -half_scale, half_scale - 1);
      const float step = unit * static_cast<float>(scale[part]);
      const float per_step = inverse(step);
      for (size_t i = part * kLength; i < (part + 1) * kLength; ++i) {
        code[i] = static_cast<uint8_t>(nearest_code(in[i] * per_step, -half, half - 1.0F) + half);
      }
    }
  }
};

// Puts `bits` bits of each code into bytes that hold 8 / bits codes each: those of the elements
// Stride apart within a run of Stride * 8 / bits elements.
template <int Stride>
void pack(const Codes& code, uint8_t* bytes, int bits, int shift) {
  const int run = Stride * 8 / bits;
  const int mask = (1 << bits) - 1;
  for (int i = 0; i < kElements; ++i) {
    const int part = ((code[static_cast<size_t>(i)] >> shift) & mask) << (i % run / Stride * bits);
    uint8_t& byte = bytes[i / run * Stride + i % Stride];
    byte = static_cast<uint8_t>(byte | part);
  }
}

// The 8 pairs of six-bit numbers of Q4_K and Q5_K in 12 bytes, as k_scale() reads them.
void pack_k_scales(const AffineBlock<32>& block, uint8_t* packed) {
  for (size_t i = 0; i < 4; ++i) {
    const int scale = block.scale[i + 4];
    const int minimum = block.minimum[i + 4];
    packed[i] = static_cast<uint8_t>(block.scale[i] | (scale >> 4) << 6);
    packed[i + 4] = static_cast<uint8_t>(block.minimum[i] | (minimum >> 4) << 6);
    packed[i + 8] = static_cast<uint8_t>((scale & 0xF) | (minimum & 0xF) << 4);
  }
}

}  // namespace

// scales[16], codes[64], d, m
void quantize_q2_k_block(const float* in, uint8_t* out) {
  std::memset(out, 0, 84);
  const AffineBlock<16> block(in, 3, 15, out + 80, out + 82);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = static_cast<uint8_t>(block.scale[i] | block.minimum[i] << 4);
  }
  pack<32>(block.code, out + 16, 2, 0);
}

// third_bits[32], codes[64], scales[12], d
void quantize_q3_k_block(const float* in, uint8_t* out) {
  std::memset(out, 0, 110);
  const SymmetricBlock block(in, 4, 32, out + 108);
  pack<32>(block.code, out, 1, 2);
  pack<32>(block.code, out + 32, 2, 0);
  for (size_t i = 0; i < 16; ++i) {
    const int scale = block.scale[i] + 32;
    uint8_t& low = out[96 + i % 8];
    uint8_t& high = out[104 + i % 4];
    low = static_cast<uint8_t>(low | (scale & 0xF) << (i / 8 * 4));
    high = static_cast<uint8_t>(high | (scale >> 4) << (i / 4 * 2));
  }
}

// d, m, scales[12], codes[128]
void quantize_q4_k_block(const float* in, uint8_t* out) {
  std::memset(out, 0, 144);
  const AffineBlock<32> block(in, 15, 63, out, out + 2);
  pack_k_scales(block, out + 4);
  pack<32>(block.code, out + 16, 4, 0);
}

// d, m, scales[12], fifth_bits[32], codes[128]
void quantize_q5_k_block(const float* in, uint8_t* out) {
  std::memset(out, 0, 176);
  const AffineBlock<32> block(in, 31, 63, out, out + 2);
  pack_k_scales(block, out + 4);
  pack<32>(block.code, out + 16, 1, 4);
  pack<32>(block.code, out + 48, 4, 0);
}

// low_bits[128], high_bits[64], scales[16], d
void quantize_q6_k_block(const float* in, uint8_t* out) {
  std::memset(out, 0, 210);
  const SymmetricBlock block(in, 32, 128, out + 208);
  pack<64>(block.code, out, 4, 0);
  pack<32>(block.code, out + 128, 2, 4);
  for (size_t i = 0; i < 16; ++i) {
    out[192 + i] = static_cast<uint8_t>(static_cast<int8_t>(block.scale[i]));
  }
}

}  // namespace assay
