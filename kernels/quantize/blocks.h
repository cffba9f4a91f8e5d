#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/half.h"

namespace assay {

// Stores `value` as binary16 and gives what a reader will find.
inline float store_f16(uint8_t* bytes, float value) {
  const uint16_t half = f16_from_float(value);
  std::memcpy(bytes, &half, sizeof(half));
  return float_from_f16(half);
}

inline float inverse(float d) {
  return d == 0.0F ? 0.0F : 1.0F / d;
}

// One block each: `in` holds the elements of the type's block, `out` its bytes. See quantize.h.
void quantize_q4_0_block(const float* in, uint8_t* out);
void quantize_q4_1_block(const float* in, uint8_t* out);
void quantize_q5_0_block(const float* in, uint8_t* out);
void quantize_q5_1_block(const float* in, uint8_t* out);
void quantize_q8_0_block(const float* in, uint8_t* out);
void quantize_mxfp4_block(const float* in, uint8_t* out);
void quantize_nvfp4_block(const float* in, uint8_t* out);
void quantize_iq4_nl_block(const float* in, uint8_t* out);
void quantize_iq4_xs_block(const float* in, uint8_t* out);
void quantize_tq1_0_block(const float* in, uint8_t* out);
void quantize_tq2_0_block(const float* in, uint8_t* out);
void quantize_q2_k_block(const float* in, uint8_t* out);
void quantize_q3_k_block(const float* in, uint8_t* out);
void quantize_q4_k_block(const float* in, uint8_t* out);
void quantize_q5_k_block(const float* in, uint8_t* out);
void quantize_q6_k_block(const float* in, uint8_t* out);

}  // namespace assay
