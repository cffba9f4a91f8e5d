#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "assay/mutate/op_tracker.h"
#include "kernels/kernels.h"

namespace assay {

// Calls of kernels.h as values, for a fault to change before they are made.
struct GetRowsCall {
  WeightMatrix table;
  const int32_t* ids = nullptr;
  int64_t n_ids = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const { kernels.get_rows(table, ids, n_ids, out); }
};

struct MatmulCall {
  WeightMatrix w;
  const float* bias = nullptr;
  const float* x = nullptr;
  int64_t n_tokens = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const { kernels.matmul(w, bias, x, n_tokens, out); }
};

struct NormCall {
  NormKind kind = NormKind::kRms;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // not of kRms
  float eps = 0.0F;
  int64_t n_tokens = 0;
  int64_t width = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const {
    if (kind == NormKind::kRms) {
      kernels.rms_norm(x, weight, eps, n_tokens, width, out);
    } else {
      kernels.layer_norm(x, weight, bias, eps, n_tokens, width, out);
    }
  }
};

struct RopeCall {
  const float* x = nullptr;
  const float* cos_sin = nullptr;
  RopePairing pairing = RopePairing::kAdjacent;
  int64_t n_tokens = 0;
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const {
    kernels.rope(x, cos_sin, pairing, n_tokens, n_heads, head_dim, rotary_dim, out);
  }
};

struct StoreKvCall {
  const float* x = nullptr;
  KvType type = KvType::kF32;
  int64_t count = 0;
  void* destination = nullptr;
  void run(Kernels& kernels) const { kernels.store_kv(x, type, count, destination); }
};

struct AttentionCall {
  const float* q = nullptr;
  KvView kv;
  AttentionShape shape;
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const {
    kernels.attention(q, kv, shape, first_position, n_tokens, out);
  }
};

struct ActivateCall {
  FfnKind kind = FfnKind::kSiluGated;
  const float* x = nullptr;   // the gate, if there is one
  const float* up = nullptr;  // null without a gate
  int64_t count = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const {
    if (kind == FfnKind::kSiluGated) {
      kernels.silu_mul(x, up, count, out);
    } else {
      kernels.gelu_tanh(x, count, out);
    }
  }
};

struct AddCall {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t count = 0;
  float* out = nullptr;
  void run(Kernels& kernels) const { kernels.add(a, b, count, out); }
};

// Where a call is, for a fault to look at.
struct OpContext {
  OpPlace place;
  const ModelConfig& config;
  int64_t first_position = 0;  // of this batch
  int64_t n_tokens = 0;        // of this batch
};

// The result of an op that has been computed: values[n_rows, width], of the positions
// first_position, first_position + 1, ...
struct OpResult {
  float* values = nullptr;
  int64_t n_rows = 0;
  int64_t width = 0;
  int64_t first_position = 0;

  std::span<float> row(int64_t i) const { return {values + i * width, static_cast<size_t>(width)}; }
};

// What is done in the place of calls. An empty one leaves the call as it is; each that is not runs
// `call` on `kernels`, the sound ones, or does something else that fills call.out.
struct KernelHooks {
  template <class Call>
  using Hook = std::function<void(const OpContext&, Call call, Kernels& kernels)>;

  Hook<GetRowsCall> get_rows;
  Hook<MatmulCall> matmul;
  Hook<NormCall> norm;
  Hook<RopeCall> rope;
  Hook<StoreKvCall> store_kv;
  Hook<AttentionCall> attention;
  Hook<ActivateCall> activate;
  Hook<AddCall> add;
  // After a checkpoint is finished; may change it. Not after a store.
  std::function<void(const OpContext&, OpResult result)> after;
  // Which calls the above are for; empty: all.
  std::function<bool(const OpPlace&)> applies;
};

// What other kernels make of the same calls, beside the ones with hooks. Stores are left out.
struct KernelShadow {
  Kernels* kernels = nullptr;  // null: none
  // `want` is of the same shape as `got`.
  std::function<void(const OpContext&, OpResult got, const float* want)> compare = {};
};

// Kernels with hooks around each call. One for each Session, from its first token on; the memory
// must be the host's.
class FaultyKernels : public Kernels {
 public:
  // `config` and `kernels` must outlive it.
  FaultyKernels(const ModelConfig& config, Kernels& kernels, KernelHooks hooks,
                KernelShadow shadow = {});

  std::string_view name() const override { return kernels_.name(); }
  Memory& memory() override { return kernels_.memory(); }

  void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out) override;
  void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
              float* out) override;
  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
                float* out) override;
  void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                  int64_t n_tokens, int64_t width, float* out) override;
  void rope(const float* x, const float* cos_sin, RopePairing pairing, int64_t n_tokens,
            int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out) override;
  void store_kv(const float* x, KvType type, int64_t count, void* destination) override;
  void attention(const float* q, const KvView& kv, const AttentionShape& shape,
                 int64_t first_position, int64_t n_tokens, float* out) override;
  void silu_mul(const float* gate, const float* up, int64_t count, float* out) override;
  void gelu_tanh(const float* x, int64_t count, float* out) override;
  void add(const float* a, const float* b, int64_t count, float* out) override;

 private:
  template <class Call>
  void run(KernelOp op, const KernelHooks::Hook<Call>& hook, const Call& call, int64_t count);
  template <class Call>
  OpResult result_of(const OpPlace& place, const Call& call, int64_t count);

  const ModelConfig& config_;
  Kernels& kernels_;
  KernelHooks hooks_;
  KernelShadow shadow_;
  std::vector<float> shadow_values_;
  OpTracker tracker_;
  int64_t first_position_ = 0;  // of the batch under way
  int64_t n_tokens_ = 0;
  OpResult final_norm_;  // of some of the batch's tokens; logits are computed from parts of it
};

}  // namespace assay
