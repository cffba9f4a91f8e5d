#pragma once

#include <cstdint>
#include <cstring>

namespace assay {

// Conversions between float and the 16-bit formats, on their bit patterns. They give what the
// processor's own instructions give, NaN payloads included, so that scalar and vector paths agree.
//
// Always inlined: the sources of kernels/cpu are compiled for several instruction sets, and the
// linker must not pick one set's copy of a shared function for all.
#if defined(__CUDACC__)
#define ASSAY_ALWAYS_INLINE __host__ __device__ __forceinline__
#else
#define ASSAY_ALWAYS_INLINE __attribute__((always_inline)) inline
#endif

ASSAY_ALWAYS_INLINE uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

ASSAY_ALWAYS_INLINE float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// IEEE binary16 to float: exact; a signalling NaN becomes quiet.
ASSAY_ALWAYS_INLINE float float_from_f16(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    return float_from_bits(sign | float_bits(static_cast<float>(mantissa) * 0x1p-24F));
  }
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
    return float_from_bits(sign | 0x7F800000U | quiet | (mantissa << 13U));
  }
  return float_from_bits(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

// To the nearest binary16, ties to even; 65520 and above become infinity.
ASSAY_ALWAYS_INLINE uint16_t f16_from_float(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 16U) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13U) & 0x3FFU));
  }
  if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // Below 2^-14: the sum with 0.5 rounds to a multiple of 2^-24, the spacing of subnormals.
    const uint32_t rounded = float_bits(float_from_bits(magnitude) + 0.5F) - float_bits(0.5F);
    return static_cast<uint16_t>(sign | rounded);
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13U));
}

ASSAY_ALWAYS_INLINE float float_from_bf16(uint16_t half) {
  return float_from_bits(static_cast<uint32_t>(half) << 16U);
}

// To the nearest bfloat16, ties to even; NaN becomes quiet.
ASSAY_ALWAYS_INLINE uint16_t bf16_from_float(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace assay
