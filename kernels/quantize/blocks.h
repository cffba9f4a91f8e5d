#pragma once

#include <cstdint>

namespace assay {

// One block each: `in` holds the elements of the type's block, `out` its bytes. See quantize.h.
void quantize_q4_0_block(const float* in, uint8_t* out);
void quantize_q4_1_block(const float* in, uint8_t* out);
void quantize_q5_0_block(const float* in, uint8_t* out);
void quantize_q5_1_block(const float* in, uint8_t* out);
void quantize_q8_0_block(const float* in, uint8_t* out);
void quantize_mxfp4_block(const float* in, uint8_t* out);
void quantize_q2_k_block(const float* in, uint8_t* out);
void quantize_q3_k_block(const float* in, uint8_t* out);
void quantize_q4_k_block(const float* in, uint8_t* out);
void quantize_q5_k_block(const float* in, uint8_t* out);
void quantize_q6_k_block(const float* in, uint8_t* out);

}  // namespace assay
