#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/kernels.h"

namespace assay {

// Several ops of kernels.h in one, for one token: what a device decodes with, since each launch
// costs as much as a small op. Results have the bits that the single ops give. Values between the
// ops are written only to the addresses that are not null. All addresses are of the kernels'
// memory().

struct FusedNorm {
  NormKind kind = NormKind::kRms;
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width] or null; kLayer
  float eps = 0.0F;
};

struct FusedLinear {
  WeightMatrix weight;
  const float* bias = nullptr;  // [rows] or null
};

// Which token is evaluated, in memory: so that the same launches serve every token.
struct FusedToken {
  const int32_t* id = nullptr;        // [1]
  const int32_t* position = nullptr;  // [1]
  // [n_angles, rotary_dim / 2, 2], those of a position in row position % n_angles
  const float* cos_sin = nullptr;
  int32_t n_angles = 1;
};

// x = row id of `table`, plus row `position` of `positions` if that has data.
struct FusedEmbedding {
  WeightMatrix table;
  WeightMatrix positions;
  FusedToken token;
  float* x = nullptr;
};

// Queries, keys and values of norm(x), queries and keys turned by the rotary angles; keys and
// values stored.
struct FusedQkv {
  const float* x = nullptr;  // [q.columns]
  FusedNorm norm;
  FusedLinear q, k, v;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // of each head, the rest stays; 0: nothing is turned
  RopePairing pairing = RopePairing::kAdjacent;
  FusedToken token;
  KvType kv_type = KvType::kF32;
  void* k_cache = nullptr;  // [position, k.rows], as v_cache
  void* v_cache = nullptr;
  float* q_out = nullptr;  // [q.rows], turned

  float* normed_seen = nullptr;
  float* q_seen = nullptr;  // before they are turned
  float* k_seen = nullptr;
  float* v_seen = nullptr;
  float* k_rope_seen = nullptr;
};

// AttentionCall of the token's query, with `most_keys` at least as many as it sees.
struct FusedAttention {
  const float* q = nullptr;
  KvView kv;
  AttentionShape shape;
  FusedToken token;
  int64_t most_keys = 0;
  void* scratch = nullptr;  // attention_scratch(shape, most_keys) bytes
  float* out = nullptr;
  TensorType multiplies = TensorType::kF32;  // the type of the matrix that `out` is multiplied with
};

// residual += w · x. The step before this one must not have written the residual: it is read while
// that may still be under way.
struct FusedResidual {
  const float* x = nullptr;
  FusedLinear w;
  float* residual = nullptr;

  float* product_seen = nullptr;
};

// act = SiLU(gate · norm(x)) * (up · norm(x)), or GELU(up · norm(x)) where gate has no data.
struct FusedActivation {
  const float* x = nullptr;
  FusedNorm norm;
  FusedLinear gate, up;
  float* act = nullptr;

  float* normed_seen = nullptr;
  float* gate_seen = nullptr;
  float* up_seen = nullptr;
};

// logits = w · norm(x)
struct FusedLogits {
  const float* x = nullptr;
  FusedNorm norm;
  WeightMatrix w;
  float* logits = nullptr;

  float* normed_seen = nullptr;
};

// The choosable logit that is highest, the lowest id among equals; -1 if one is NaN or infinite, or
// none may be chosen. `choosable` has a byte for each id, which is not 0 if it may be.
struct FusedChoice {
  const float* logits = nullptr;
  const uint8_t* choosable = nullptr;
  int64_t count = 0;
  void* scratch = nullptr;  // choice_scratch(count) bytes
  int32_t* ids = nullptr;   // [kChoices], of which the token's position % kChoices is set
  // The token that the logits are of. It becomes the next one: the id is the choice, or 0 if there
  // is none, the position one more.
  int32_t* id = nullptr;
  int32_t* position = nullptr;
};
constexpr int32_t kChoices = 2;

// Launches that were recorded, to be made again in one go.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
  virtual int64_t n_nodes() const = 0;
};

class FusedKernels {
 public:
  virtual ~FusedKernels() = default;

  // Whether a vector of this width, or its norm, can be multiplied with matrices of these types in
  // one go.
  virtual bool takes(int64_t width, bool is_normed, std::span<const TensorType> types) const = 0;

  virtual size_t attention_scratch(const AttentionShape& shape, int64_t most_keys) const = 0;
  virtual size_t choice_scratch(int64_t count) const = 0;

  virtual void embed(const FusedEmbedding& step) = 0;
  virtual void qkv(const FusedQkv& step) = 0;
  virtual void attention(const FusedAttention& step) = 0;
  virtual void residual(const FusedResidual& step) = 0;
  virtual void activation(const FusedActivation& step) = 0;
  virtual void logits(const FusedLogits& step) = 0;
  virtual void choose(const FusedChoice& step) = 0;

  // Where choices are put for the host: [kChoices] words that launches write. The host may read
  // them after await(slot), which returns when all that was launched before the last mark(slot) is
  // done; what was launched after it may still run. `slot`: below kChoices.
  virtual int32_t* host_choices() = 0;
  virtual void mark(int32_t slot) = 0;
  virtual void await(int32_t slot) = 0;

  // What `steps` calls of the above is not done but kept. No memory may be allocated in it.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& steps) = 0;
};

}  // namespace assay
