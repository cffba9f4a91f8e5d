#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/cuda/language.h"
#include "kernels/kernels.h"

// The ops of kernels.h on a device, in exact math: the same bits as kernels/cpu. All addresses are
// of the device's memory; shapes are checked by nobody here.
namespace assay::ASSAY_DEVICE {

void get_rows(Device& device, const WeightMatrix& table, const int32_t* ids, int64_t n_ids,
              float* out);
void matmul(Device& device, const WeightMatrix& w, const float* bias, const float* x,
            int64_t n_tokens, float* out);

void rms_norm(Device& device, const float* x, const float* weight, float eps, int64_t n_tokens,
              int64_t width, float* out);
void layer_norm(Device& device, const float* x, const float* weight, const float* bias, float eps,
                int64_t n_tokens, int64_t width, float* out);

void rope(Device& device, const float* x, const float* cos_sin, RopePairing pairing,
          int64_t n_tokens, int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out);
void store_kv(Device& device, const float* x, KvType type, int64_t count, void* destination);

// Of the positions first_position, ...; n_tokens * n_heads * max_keys floats at `scratch`, where
// max_keys is attention_keys(shape, first_position, n_tokens).
void attention(Device& device, const float* q, const KvView& kv, const AttentionShape& shape,
               int64_t first_position, int64_t n_tokens, float* scratch, float* out);
// The most keys that one of the queries sees.
int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens);

void silu_mul(Device& device, const float* gate, const float* up, int64_t count, float* out);
void gelu_tanh(Device& device, const float* x, int64_t count, float* out);
void add(Device& device, const float* a, const float* b, int64_t count, float* out);

std::unique_ptr<Kernels> make_kernels(std::string_view name, std::unique_ptr<Device> device);

// Blocks of `size` threads that together have at least `count` of them.
inline unsigned blocks_for(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace assay::ASSAY_DEVICE
