#pragma once

#include "kernels/kernels.h"

// The ops of kernels.h as plain loops that accumulate in double and round once at the end.
namespace assay::reference {

void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out);
void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens, float* out);

void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
              float* out);
void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_tokens,
                int64_t width, float* out);

void rope(const float* x, const float* cos_sin, RopePairing pairing, int64_t n_tokens,
          int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out);
void store_kv(const float* x, KvType type, int64_t count, void* destination);
void attention(const float* q, const KvView& kv, const AttentionShape& shape,
               int64_t first_position, int64_t n_tokens, float* out);

void silu_mul(const float* gate, const float* up, int64_t count, float* out);
void gelu_tanh(const float* x, int64_t count, float* out);
void add(const float* a, const float* b, int64_t count, float* out);

}  // namespace assay::reference
