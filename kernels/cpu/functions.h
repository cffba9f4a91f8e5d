#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

// The boundary between CpuKernels, which is compiled once and shares work out to threads, and the
// kernels that are compiled once for each instruction set.
namespace assay::cpu {

// The ops of Kernels, as one instruction set computes them on one thread. Each element of a result
// is the same however rows, tokens and queries are grouped into calls.
struct Functions {
  void (*dequantize_row)(TensorType type, const void* data, int64_t n, float* out);

  // Rows [first, last) of the product, for all tokens, in exact math or by floats, with
  // matmul_scratch(...) bytes at a multiple of 64.
  void (*matmul_rows)(const MatmulCall& m, bool exact, int64_t first, int64_t last, void* scratch);
  int64_t (*matmul_scratch)(const MatmulCall& m, bool exact);

  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
                   float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps,
                     int64_t n_tokens, int64_t width, float* out);
  void (*cut_off)(const float* x, float factor, int64_t n_tokens, int64_t width, float* out);

  // The queries that read one key-value head are numbered token by token, and within a token head
  // by head. Queries [first, last), at most max_query_tile of them, in exact math or by floats,
  // with attention_scratch(...) bytes at a multiple of 64.
  void (*attend)(const AttentionCall& a, bool exact, int64_t kv_head, int64_t first, int64_t last,
                 void* scratch);
  int64_t (*attention_scratch)(const AttentionCall& a, bool exact);
  int64_t max_query_tile;

  void (*store_f16)(const float* x, int64_t count, uint16_t* out);
  void (*activate)(const ActivateCall& a, int64_t first, int64_t last);  // elements
  void (*add)(const float* a, const float* b, int64_t count, float* out);
  void (*add_scaled)(const float* a, const float* b, float scale, int64_t count, float* out);
  // One token's.
  void (*mix)(const float* x, const float* weights, int64_t n_used, int64_t width, float* out);
  // One value head of all tokens, its state included, with 2 key_dim elements of scratch memory.
  void (*delta_head)(const DeltaCall& call, int64_t head, double* scratch);
  void (*ssm_head)(const SsmCall& call, int64_t head, double* scratch);  // likewise
  // No op: for the test of exp.h.
  void (*exp)(const float* x, int64_t count, float* out);
};

}  // namespace assay::cpu

namespace assay::portable {
const cpu::Functions& functions();
}
#if defined(__x86_64__)
namespace assay::avx2 {
const cpu::Functions& functions();
}
namespace assay::avx512 {
const cpu::Functions& functions();
}
#endif
