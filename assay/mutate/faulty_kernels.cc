#include "assay/mutate/faulty_kernels.h"

#include <stdexcept>
#include <utility>

namespace assay {

FaultyKernels::FaultyKernels(const ModelConfig& config, Kernels& kernels, KernelHooks hooks,
                             KernelShadow shadow)
    : config_(config), kernels_(kernels), hooks_(std::move(hooks)), shadow_(std::move(shadow)) {
  if (!kernels.memory().on_host()) {
    throw std::logic_error("faults are injected on the host only");
  }
}

// `count`: elements of the result.
template <class Call>
void FaultyKernels::run_hooked(const KernelHooks::Hook<Call>& hook, const Call& call,
                               int64_t count) {
  const OpContext context{call.site, config_};
  if (shadow_.kernels != nullptr) {
    // First, because the call may overwrite its inputs.
    shadow_values_.resize(static_cast<size_t>(count));
    Call beside = call;
    beside.out = shadow_values_.data();
    shadow_.kernels->run(beside);
  }
  const bool hooked = !hooks_.applies || hooks_.applies(call.site);
  if (hooked && hook) {
    hook(context, call, kernels_);
  } else {
    kernels_.run(call);
  }
  const OpResult result{call.out, call.site.n_tokens, count / call.site.n_tokens,
                        call.site.first_position};
  if (hooked && hooks_.after && call.site.finishes) hooks_.after(context, result);
  if (shadow_.kernels != nullptr) shadow_.compare(context, result, shadow_values_.data());
}

void FaultyKernels::run(const GetRowsCall& call) {
  run_hooked(hooks_.get_rows, call, call.n_ids * call.table.columns);
}

void FaultyKernels::run(std::span<const MatmulCall> calls) {
  for (const MatmulCall& call : calls) run_hooked(hooks_.matmul, call, call.n_tokens * call.w.rows);
}

void FaultyKernels::run(const NormCall& call) {
  run_hooked(hooks_.norm, call, call.n_tokens * call.width);
}

void FaultyKernels::run(const RopeCall& call) {
  run_hooked(hooks_.rope, call, call.n_tokens * call.n_heads * call.head_dim);
}

void FaultyKernels::run(const StoreKvCall& call) {
  if (hooks_.store_kv && (!hooks_.applies || hooks_.applies(call.site))) {
    hooks_.store_kv({call.site, config_}, call, kernels_);
  } else {
    kernels_.run(call);
  }
}

void FaultyKernels::run(const AttentionCall& call) {
  run_hooked(hooks_.attention, call, call.n_tokens * call.shape.n_heads * call.shape.head_dim);
}

void FaultyKernels::run(const ActivateCall& call) {
  run_hooked(hooks_.activate, call, call.count);
}

void FaultyKernels::run(const AddCall& call) {
  run_hooked(hooks_.add, call, call.count);
}

}  // namespace assay
