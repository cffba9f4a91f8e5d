#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/coded_types.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/fit.h"

// Blocks of types whose codes come from a small table; kernels/coded_types.h names their fields.

namespace assay {
namespace {

// Elements that share a scale, of the types with sixteen uneven codes.
constexpr int kPart = 32;
constexpr int kTernary = 256;  // elements of a block

using PartCodes = std::array<uint8_t, kPart>;

constexpr float uneven(int code) {
  const uint64_t half = code < 8 ? coded::kUneven.low : coded::kUneven.high;
  return static_cast<float>(static_cast<int8_t>(half >> (code % 8 * 8) & 0xFFU));
}

constexpr std::array<float, 16> kUnevenNumbers = [] {
  std::array<float, 16> numbers{};
  for (int code = 0; code < 16; ++code) numbers[static_cast<size_t>(code)] = uneven(code);
  return numbers;
}();

// The code of the number nearest to each half from -128 to 127.5. What is halfway between two
// numbers is such a half.
constexpr std::array<uint8_t, 512> kNearest = [] {
  std::array<uint8_t, 512> nearest{};
  for (int i = 0; i < 512; ++i) {
    const float x = 0.5F * static_cast<float>(i) - 128.0F;
    uint8_t code = 0;
    while (code < 15 && x >= 0.5F * (uneven(code) + uneven(code + 1))) ++code;
    nearest[static_cast<size_t>(i)] = code;
  }
  return nearest;
}();

// The codes whose numbers are nearest to in * per_scale.
PartCodes nearest_uneven(const float* in, float per_scale) {
  PartCodes codes;
  for (size_t i = 0; i < kPart; ++i) {
    const float half = std::min(511.0F, std::max(0.0F, 2.0F * in[i] * per_scale + 256.0F));
    codes[i] = kNearest[static_cast<size_t>(static_cast<int>(half))];
  }
  return codes;
}

// The scale with which the sixteen numbers come nearest to a part, by least squares over the codes
// of trial scales; the peak gets the first number, or one some steps beside it.
float fit_uneven(const float* in) {
  constexpr int kUnevenTrials = 17;
  constexpr float kTrialStep = 3.0F;  // an eighth of the table's widest gap
  float peak = in[0];
  for (int i = 1; i < kPart; ++i) {
    if (std::fabs(in[i]) > std::fabs(peak)) peak = in[i];
  }
  if (peak == 0.0F) return 0.0F;
  float best = 0.0F;
  double best_gain = 0.0;  // how much of the sum of squares the fit explains
  for (int trial = 0; trial < kUnevenTrials; ++trial) {
    const float delta = kTrialStep * static_cast<float>(trial - kUnevenTrials / 2);
    const PartCodes codes = nearest_uneven(in, (uneven(0) + delta) / peak);
    const auto at = [&](int i) { return kUnevenNumbers[codes[static_cast<size_t>(i)]]; };
    const double sum_qq =
        static_cast<double>(lane_sum<kPart>([&](int i) { return at(i) * at(i); }));
    const double sum_qx =
        static_cast<double>(lane_sum<kPart>([&](int i) { return at(i) * in[i]; }));
    const double gain = sum_qx * sum_qx / sum_qq;  // no number of the table is zero
    if (gain > best_gain) {
      best_gain = gain;
      best = static_cast<float>(sum_qx / sum_qq);
    }
  }
  return best;
}

// Two codes a byte: element i and element i + 16.
void store_nibbles(const PartCodes& codes, uint8_t* bytes) {
  for (size_t i = 0; i < 16; ++i) {
    bytes[i] = static_cast<uint8_t>(codes[i] | codes[i + 16] << 4);
  }
}

// The peak's magnitude is the scale, stored at `d`; codes 0, 1 and 2 stand for -1, 0 and 1.
std::array<uint8_t, kTernary> ternary(const float* in, uint8_t* d) {
  float peak = 0.0F;
  for (int i = 0; i < kTernary; ++i) peak = std::max(peak, std::fabs(in[i]));
  store_f16(d, peak);
  const float per_peak = inverse(peak);
  std::array<uint8_t, kTernary> codes;
  for (size_t i = 0; i < kTernary; ++i) {
    codes[i] = static_cast<uint8_t>(std::round(in[i] * per_peak) + 1.0F);
  }
  return codes;
}

// `count` bytes of up to five digits to the base 3, as four_digits() reads them.
void pack_digits(const uint8_t* codes, int count, int digits, uint8_t* bytes) {
  for (int b = 0; b < count; ++b) {
    int number = 0;
    for (int n = 0; n < 5; ++n) number = number * 3 + (n < digits ? codes[n * count + b] : 0);
    bytes[b] = static_cast<uint8_t>((number * 256 + 242) / 243);
  }
}

}  // namespace

void quantize_iq4_nl_block(const float* in, uint8_t* out) {
  const float d = store_f16(out, fit_uneven(in));
  store_nibbles(nearest_uneven(in, inverse(d)), out + 2);
}

void quantize_iq4_xs_block(const float* in, uint8_t* out) {
  constexpr int kParts = 8;
  std::array<float, kParts> fits;
  float peak = 0.0F;
  for (size_t part = 0; part < kParts; ++part) {
    fits[part] = fit_uneven(in + part * kPart);
    if (std::fabs(fits[part]) > std::fabs(peak)) peak = fits[part];
  }
  std::memset(out, 0, 8);
  const float d = store_f16(out, peak / -32.0F);
  uint32_t high = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const float scale = nearest_code(fits[part] * inverse(d), -32.0F, 31.0F);
    const auto stored = static_cast<uint32_t>(static_cast<int>(scale) + 32);
    out[4 + part / 2] = static_cast<uint8_t>(out[4 + part / 2] | (stored & 0xFU) << (part % 2 * 4));
    high |= stored >> 4U << (2 * part);
    store_nibbles(nearest_uneven(in + part * kPart, inverse(d * scale)), out + 8 + part * 16);
  }
  out[2] = static_cast<uint8_t>(high);
  out[3] = static_cast<uint8_t>(high >> 8U);
}

void quantize_tq1_0_block(const float* in, uint8_t* out) {
  const auto codes = ternary(in, out + 52);
  pack_digits(codes.data(), 32, 5, out);
  pack_digits(codes.data() + 160, 16, 5, out + 32);
  pack_digits(codes.data() + 240, 4, 4, out + 48);
}

void quantize_tq2_0_block(const float* in, uint8_t* out) {
  const auto codes = ternary(in, out + 64);
  for (size_t b = 0; b < 64; ++b) {
    const uint8_t* first = codes.data() + b / 32 * 128 + b % 32;
    out[b] = static_cast<uint8_t>(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
  }
}

}  // namespace assay
