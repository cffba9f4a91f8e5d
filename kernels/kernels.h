#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/memory.h"
#include "kernels/tensor_type.h"

namespace assay {

// A weight matrix as it is stored: `rows` outputs, each a row of `columns` inputs.
struct WeightMatrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;         // a multiple of the type's block_elements
  const void* data = nullptr;  // rows * row_bytes(type, columns) bytes; no alignment is promised

  // Rows [first, first + count) as a matrix of their own; how fused tensors are taken apart.
  WeightMatrix slice(int64_t first, int64_t count) const {
    const auto* bytes = static_cast<const unsigned char*>(data);
    return {type, count, columns, bytes + static_cast<size_t>(first) * row_bytes(type, columns)};
  }
};

// One of several matrix products of the same input.
struct Product {
  WeightMatrix w;
  const float* bias = nullptr;  // [w.rows], or null
  float* out = nullptr;         // [n_tokens, w.rows]
};

enum class KvType : uint8_t { kF32, kF16 };

constexpr size_t kv_element_bytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// Which two elements of a head a rotary angle turns: 2i and 2i + 1 (llama), or
// i and i + rotary_dim / 2.
enum class RopePairing : uint8_t { kAdjacent, kHalves };

// RMSNorm or LayerNorm; see rms_norm() and layer_norm().
enum class NormKind : uint8_t { kRms, kLayer };

// The keys and values of one layer: [position, kv_head, head_dim], `type` elements.
struct KvView {
  KvType type = KvType::kF32;
  const void* k = nullptr;
  const void* v = nullptr;
};

struct AttentionShape {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;  // divides n_heads; query head h reads kv head h / (n_heads / n_kv_heads)
  int64_t head_dim = 0;
  float scale = 0.0F;
  int64_t window = 0;  // a query at p sees keys in (p - window, p]; 0: all up to p
};

class FusedKernels;

// One function an op; the engine calls nothing else to compute. Arrays are dense, row-major float,
// [n_tokens, width] unless said otherwise. `out` must not overlap an input except where said so.
// No result depends on the number of threads or on how tokens are split over calls: each element
// is computed from its own inputs in one fixed order of sums. All addresses are of memory(), those
// of weights and ids too.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // "reference", "cuda", "emulated", or the instruction set in use: "avx512-vnni", "avx512",
  // "avx-vnni", "avx2", "portable". Of a decorator that of what it decorates.
  virtual std::string_view name() const = 0;

  // Where the arrays of this backend are.
  virtual Memory& memory() { return host_memory(); }

  // Several ops in one for a single token; null where single ops do as well.
  virtual FusedKernels* fused() { return nullptr; }

  // out[i, :] = dequantised row ids[i] of `table`. Each id is in [0, table.rows).
  virtual void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids,
                        float* out) = 0;

  // out[t, r] = sum_c w[r, c] * x[t, c] + bias[r]; `bias` may be null.
  virtual void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
                      float* out) = 0;

  // As matmul() for each of `products`, one after the other; all have w.columns inputs.
  virtual void matmuls(std::span<const Product> products, const float* x, int64_t n_tokens) {
    for (const Product& product : products) {
      matmul(product.w, product.bias, x, n_tokens, product.out);
    }
  }

  // out = x / sqrt(mean(x²) + eps) * weight, a row at a time. out may be x. Zhang & Sennrich 2019.
  virtual void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                        int64_t width, float* out) = 0;

  // out = (x - mean) / sqrt(variance + eps) * weight + bias, biased variance. out may be x; `bias`
  // may be null. Ba, Kiros & Hinton 2016.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                          int64_t n_tokens, int64_t width, float* out) = 0;

  // Rotary embedding (Su et al. 2021) of x[n_tokens, n_heads, head_dim]: the first `rotary_dim`
  // elements of each head are turned, the rest copied. cos_sin[n_tokens, rotary_dim / 2, 2] holds
  // cos and sin of each token's angles. out may be x.
  virtual void rope(const float* x, const float* cos_sin, RopePairing pairing, int64_t n_tokens,
                    int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out) = 0;

  // Stores x[count] into `destination` as `type` elements (f16: to nearest, ties to even).
  virtual void store_kv(const float* x, KvType type, int64_t count, void* destination) = 0;

  // Causal attention of the queries q[n_tokens, n_heads, head_dim], which stand at positions
  // first_position .. first_position + n_tokens - 1, over the keys and values of all positions up
  // to their own. out[n_tokens, n_heads, head_dim].
  virtual void attention(const float* q, const KvView& kv, const AttentionShape& shape,
                         int64_t first_position, int64_t n_tokens, float* out) = 0;

  // out = gate / (1 + exp(-gate)) * up (SwiGLU, Shazeer 2020). out may be gate or up.
  virtual void silu_mul(const float* gate, const float* up, int64_t count, float* out) = 0;

  // out = GELU(x), the tanh form of Hendrycks & Gimpel 2016 that GPT-2 uses. out may be x.
  virtual void gelu_tanh(const float* x, int64_t count, float* out) = 0;

  // out = a + b. out may be a or b.
  virtual void add(const float* a, const float* b, int64_t count, float* out) = 0;
};

class ThreadPool;

// Naive loops that accumulate in double: what the fast kernels are tested against.
std::unique_ptr<Kernels> make_reference_kernels();

// kAvxVnni is AVX2, kAvx512Vnni AVX-512, with instructions for int8 products.
enum class InstructionSet : uint8_t { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni };

// The best instruction set that both the processor and the operating system offer.
InstructionSet best_instruction_set();

// kExact: weights as stored, dequantised to float; products and sums in float. kFast: where weights
// are stored in blocks, activations are rounded to 8 bits with one scale for each 16 of them, whose
// products are summed as whole numbers. Either gives the same bits for any number of
// threads, any split of tokens over calls, and on every instruction set.
enum class Math : uint8_t { kExact, kFast };

// SIMD kernels. `pool` must outlive them. Throws Error if this processor lacks `set`.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool,
                                          InstructionSet set = best_instruction_set(),
                                          Math math = Math::kExact);

}  // namespace assay
