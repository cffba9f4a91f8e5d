#include "assay/mutate/faulty_kernels.h"

#include <stdexcept>
#include <type_traits>
#include <utility>

namespace assay {

FaultyKernels::FaultyKernels(const ModelConfig& config, Kernels& kernels, KernelHooks hooks,
                             KernelShadow shadow)
    : config_(config),
      kernels_(kernels),
      hooks_(std::move(hooks)),
      shadow_(std::move(shadow)),
      tracker_(config) {
  if (!kernels.memory().on_host()) {
    throw std::logic_error("faults are injected on the host only");
  }
}

template <class Call>
OpResult FaultyKernels::result_of(const OpPlace& place, const Call& call, int64_t count) {
  OpResult result{.values = call.out, .n_rows = n_tokens_, .first_position = first_position_};
  if constexpr (std::is_same_v<Call, NormCall>) {
    // The last norm may be computed for the batch's last tokens only.
    result.n_rows = call.n_tokens;
    result.first_position += n_tokens_ - call.n_tokens;
    if (place.checkpoint == Checkpoint::kFinalNorm) final_norm_ = result;
  }
  if constexpr (std::is_same_v<Call, MatmulCall>) {
    result.n_rows = call.n_tokens;
    if (place.checkpoint == Checkpoint::kLogits) {
      result.first_position =
          final_norm_.first_position + (call.x - final_norm_.values) / call.w.columns;
    }
  }
  result.width = count / result.n_rows;
  return result;
}

template <class Call>
void FaultyKernels::run(KernelOp op, const KernelHooks::Hook<Call>& hook, const Call& call,
                        int64_t count) {
  const OpContext context{.place = tracker_.advance(op),
                          .config = config_,
                          .first_position = first_position_,
                          .n_tokens = n_tokens_};
  if constexpr (!std::is_same_v<Call, StoreKvCall>) {
    if (shadow_.kernels != nullptr) {
      // First, because the call may overwrite its inputs.
      shadow_values_.resize(static_cast<size_t>(count));
      Call beside = call;
      beside.out = shadow_values_.data();
      beside.run(*shadow_.kernels);
    }
  }
  const bool hooked = !hooks_.applies || hooks_.applies(context.place);
  if (hooked && hook) {
    hook(context, call, kernels_);
  } else {
    call.run(kernels_);
  }
  if constexpr (!std::is_same_v<Call, StoreKvCall>) {
    const OpResult result = result_of(context.place, call, count);
    if (hooked && hooks_.after && context.place.finishes) hooks_.after(context, result);
    if (shadow_.kernels != nullptr) shadow_.compare(context, result, shadow_values_.data());
  }
}

void FaultyKernels::get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids,
                             float* out) {
  if (!tracker_.expects_positions()) {
    first_position_ += n_tokens_;
    n_tokens_ = n_ids;
  }
  run(KernelOp::kGetRows, hooks_.get_rows, GetRowsCall{table, ids, n_ids, out},
      n_ids * table.columns);
}

void FaultyKernels::matmul(const WeightMatrix& w, const float* bias, const float* x,
                           int64_t n_tokens, float* out) {
  run(KernelOp::kMatmul, hooks_.matmul, MatmulCall{w, bias, x, n_tokens, out}, n_tokens * w.rows);
}

void FaultyKernels::rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                             int64_t width, float* out) {
  run(KernelOp::kNorm, hooks_.norm,
      NormCall{NormKind::kRms, x, weight, nullptr, eps, n_tokens, width, out}, n_tokens * width);
}

void FaultyKernels::layer_norm(const float* x, const float* weight, const float* bias, float eps,
                               int64_t n_tokens, int64_t width, float* out) {
  run(KernelOp::kNorm, hooks_.norm,
      NormCall{NormKind::kLayer, x, weight, bias, eps, n_tokens, width, out}, n_tokens * width);
}

void FaultyKernels::rope(const float* x, const float* cos_sin, RopePairing pairing,
                         int64_t n_tokens, int64_t n_heads, int64_t head_dim, int64_t rotary_dim,
                         float* out) {
  run(KernelOp::kRope, hooks_.rope,
      RopeCall{x, cos_sin, pairing, n_tokens, n_heads, head_dim, rotary_dim, out},
      n_tokens * n_heads * head_dim);
}

void FaultyKernels::store_kv(const float* x, KvType type, int64_t count, void* destination) {
  run(KernelOp::kStoreKv, hooks_.store_kv, StoreKvCall{x, type, count, destination}, count);
}

void FaultyKernels::attention(const float* q, const KvView& kv, const AttentionShape& shape,
                              int64_t first_position, int64_t n_tokens, float* out) {
  run(KernelOp::kAttention, hooks_.attention,
      AttentionCall{q, kv, shape, first_position, n_tokens, out},
      n_tokens * shape.n_heads * shape.head_dim);
}

void FaultyKernels::silu_mul(const float* gate, const float* up, int64_t count, float* out) {
  run(KernelOp::kActivate, hooks_.activate, ActivateCall{FfnKind::kSiluGated, gate, up, count, out},
      count);
}

void FaultyKernels::gelu_tanh(const float* x, int64_t count, float* out) {
  run(KernelOp::kActivate, hooks_.activate,
      ActivateCall{FfnKind::kGeluTanh, x, nullptr, count, out}, count);
}

void FaultyKernels::add(const float* a, const float* b, int64_t count, float* out) {
  run(KernelOp::kAdd, hooks_.add, AddCall{a, b, count, out}, count);
}

}  // namespace assay
