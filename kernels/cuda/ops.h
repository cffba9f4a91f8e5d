#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/cuda/backend.h"
#include "kernels/fused.h"
#include "kernels/kernels.h"
#include "kernels/library.h"

// The ops of kernels.h on a device, with the bits of kernels/cpu in the same math. All addresses
// are of the device's memory; shapes are not checked here.
namespace assay::ASSAY_DEVICE {

void run(Device& device, const GetRowsCall& call);

// What matrices are multiplied with, in the form in which the kernels read it.
struct Vectors {
  const void* data;
  int64_t n_tokens;
  Rounding rounding;
};
size_t vectors_bytes(int64_t columns, int64_t n_tokens, Rounding rounding);  // of `scratch`
Vectors vectors_of(Device& device, const float* x, int64_t columns, int64_t n_tokens,
                   Rounding rounding, void* scratch);
// `scratch`: matmul_scratch() bytes.
void matmul(Device& device, Math math, const MatmulCall& call, const Vectors& x, void* scratch);
size_t matmul_scratch(const Device& device, const WeightMatrix& w, const Vectors& x);

// Those of several tokens; see tile_matmul.cu.
size_t tiles_bytes(int64_t columns, int64_t n_tokens, Rounding rounding);
void arrange_tiles(Device& device, const float* x, int64_t columns, int64_t n_tokens,
                   Rounding rounding, void* tiles);
void multiply_tiles(Device& device, Math math, const MatmulCall& call, const Vectors& x,
                    void* scratch);

// For those of Math::kLibrary. Throws Error, with what is missing, where there is no library.
std::unique_ptr<Library> make_library(Device& device);
// `w` as F16 or BF16: its own data if it is stored so, otherwise rounded into `scratch`, of
// [rows, columns].
const void* halves_of(Device& device, const WeightMatrix& w, TensorType half, uint16_t* scratch);
// out[t, :] = bias
void fill_with_bias(Device& device, const MatmulCall& call);

void run(Device& device, const NormCall& call);
void run(Device& device, const RopeCall& call);
void run(Device& device, const HeadsCall& call);
void run(Device& device, const ConvCall& call);
void run(Device& device, const DeltaCall& call);
void run(Device& device, const SsmCall& call);
void run(Device& device, const StoreKvCall& call);

// With attention_scratch() bytes at `scratch`.
void attention(Device& device, Math math, const AttentionCall& call, void* scratch);
size_t attention_scratch(Math math, const AttentionShape& shape, int64_t first_position,
                         int64_t n_tokens);
// The most keys that one of the queries sees.
int64_t attention_keys(const AttentionShape& shape, int64_t first_position, int64_t n_tokens);

void run(Device& device, const ActivateCall& call);
void run(Device& device, const AddCall& call);
void run(Device& device, const CutoffCall& call);
void run(Device& device, const StreamsCall& call);
void run(Device& device, const SpreadCall& call);
void run(Device& device, const MixCall& call);

// One launch each, or a few; see kernels/fused.h.
void fused_embed(Device& device, const FusedEmbedding& step);
void fused_qkv(Device& device, Math math, const FusedQkv& step);
size_t fused_attention_scratch(Math math, const AttentionShape& shape, int64_t most_keys);
void fused_attention(Device& device, Math math, const FusedAttention& step);
void fused_residual(Device& device, Math math, const FusedResidual& step);
void fused_activation(Device& device, Math math, const FusedActivation& step);
void fused_logits(Device& device, Math math, const FusedLogits& step);
size_t fused_choice_scratch(int64_t count);  // bytes
void fused_choose(Device& device, const FusedChoice& step);
bool fused_takes(Math math, int64_t width, bool is_normed, std::span<const TensorType> types);

std::unique_ptr<Kernels> make_kernels(std::string_view name, std::unique_ptr<Device> device,
                                      Math math);

// Of the activations that weights of this type are multiplied with, with the bits of
// kernels/cpu/integers.
constexpr Rounding rounding_in(Math math, TensorType weights) {
  return math == Math::kExact ? Rounding::kNone : rounding_of(weights);
}

// Where a block may have 227 KiB of shared memory, a launch says by what it asks for whether blocks
// of others find room beside its own.
constexpr size_t kLargeSharedBytes = size_t{227} * 1024;

// Whether a launch that multiplies these weights with one vector is spread evenly so: a
// multiprocessor that has two of its blocks takes twice the time.
constexpr bool spreads_evenly(size_t shared_bytes, Math math, TensorType weights) {
  return shared_bytes >= kLargeSharedBytes && rounding_in(math, weights) == Rounding::kInt8;
}

// Of a score of attention: a double in exact math, else a float.
inline size_t score_bytes(Math math) {
  return math == Math::kExact ? sizeof(double) : sizeof(float);
}

// Blocks of `size` threads that together have at least `count` of them.
inline unsigned blocks_for(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

inline LaunchShape one_thread_each(int64_t count) {
  constexpr unsigned kInBlock = 256;
  return {{blocks_for(count, kInBlock), 1, 1}, {kInBlock, 1, 1}, 0};
}

}  // namespace assay::ASSAY_DEVICE
