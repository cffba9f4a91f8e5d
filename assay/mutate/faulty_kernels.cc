#include "assay/mutate/faulty_kernels.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace assay {

FaultyKernels::FaultyKernels(const mistakes::Network& network, Kernels& kernels,
                             const Injection& injection, KernelShadow shadow)
    : network_(network), kernels_(kernels), injection_(injection), shadow_(std::move(shadow)) {
  if (!kernels.memory().on_host()) {
    throw std::logic_error("faults are injected on the host only");
  }
}

mistakes::Inputs FaultyKernels::inputs_of(const OpSite& site) const {
  mistakes::Inputs inputs;
  for (int64_t t = 0; t < site.n_tokens; ++t) inputs.positions.push_back(site.first_position + t);
  inputs.other = [this](mistakes::Op op) -> std::shared_ptr<const mistakes::Matrix> {
    const auto kept = results_.find(op);
    return kept == results_.end() ? nullptr : kept->second;
  };
  return inputs;
}

void FaultyKernels::keep(mistakes::Op op, const OpResult& result) {
  auto values = std::make_shared<mistakes::Matrix>(result.n_rows, result.width);
  std::copy_n(result.values, values->values.size(), values->values.begin());
  results_[op] = std::move(values);
}

// What the host computes for every backend has no shadow.
template <class Call>
void FaultyKernels::run_on_host(mistakes::Hook<Call> KernelHooks::*hook, const Call& call) {
  mistakes::Inputs inputs = inputs_of(call.site);
  OpContext context{call.site, network_at(call.site), inputs};
  const bool edited = !injection_.applies || injection_.applies(call.site);
  if (edited && injection_.parameter) context.parameter = injection_.parameter(context);
  run_hooked(edited ? injection_.hooks.*hook : mistakes::Hook<Call>(), context, call, kernels_);
}

// `count`: elements of the result.
template <class Call>
void FaultyKernels::run_edited(mistakes::Hook<Call> KernelHooks::*hook, const Call& call,
                               int64_t count) {
  const OpSite& site = call.site;
  const mistakes::Inputs inputs = inputs_of(site);
  // Of a batch the embedding alone is always computed at once.
  if (site.first_position == 0 && site.checkpoint == Checkpoint::kEmbedding) {
    n_together_ = site.n_tokens;
  }
  OpContext context{call.site, network_at(call.site), inputs, 0, n_together_};
  const bool edited = !injection_.applies || injection_.applies(site);
  if (edited && injection_.parameter) context.parameter = injection_.parameter(context);
  const mistakes::Hook<Call> right;
  const mistakes::Hook<Call>& edit = edited ? injection_.hooks.*hook : right;
  if (shadow_.kernels != nullptr) {
    // First, because the call may overwrite its inputs.
    shadow_values_.resize(static_cast<size_t>(count));
    Call beside = call;
    beside.out = shadow_values_.data();
    if constexpr (std::is_same_v<Call, DeltaCall> || std::is_same_v<Call, SsmCall>) {
      shadow_state_.assign(call.state, call.state + call.shape.state_size());
      beside.state = shadow_state_.data();
    }
    run_hooked(injection_.in_arguments ? edit : right, context, beside, *shadow_.kernels);
  }
  run_hooked(edit, context, call, kernels_);
  const OpResult result{call.out, site.n_tokens, count / site.n_tokens, site.first_position};
  if (edited && injection_.hooks.after && site.finishes) injection_.hooks.after(context, result);
  if (site.finishes) keep(context.op(), result);
  if (shadow_.kernels != nullptr) shadow_.compare(context, result, shadow_values_.data());
}

void FaultyKernels::run(const GetRowsCall& call) {
  run_edited(&KernelHooks::get_rows, call, call.n_ids * call.table.columns);
}

void FaultyKernels::run(std::span<const MatmulCall> calls) {
  for (const MatmulCall& call : calls)
    run_edited(&KernelHooks::matmul, call, call.n_tokens * call.w.rows);
}

void FaultyKernels::run(const NormCall& call) {
  run_edited(&KernelHooks::norm, call, call.n_tokens * call.width);
}

void FaultyKernels::run(const RopeCall& call) {
  run_edited(&KernelHooks::rope, call, call.n_tokens * call.n_heads * call.head_dim);
}

void FaultyKernels::run(const HeadsCall& call) {
  run_edited(&KernelHooks::heads, call, call.n_tokens * call.n_heads * call.parts.head_dim());
}

void FaultyKernels::run(const StoreKvCall& call) {
  kernels_.run(call);
}

void FaultyKernels::run(const AttentionCall& call) {
  run_edited(&KernelHooks::attention, call,
             call.n_tokens * call.shape.n_heads * call.shape.value_dim());
}

void FaultyKernels::run(const ConvCall& call) {
  run_edited(&KernelHooks::conv, call, call.n_tokens * call.width);
}

void FaultyKernels::run(const DeltaCall& call) {
  run_edited(&KernelHooks::delta, call, call.n_tokens * call.shape.value_width());
}

void FaultyKernels::run(const SsmCall& call) {
  run_edited(&KernelHooks::ssm, call, call.n_tokens * call.shape.value_width());
}

void FaultyKernels::run(const ActivateCall& call) {
  const bool caps = call.kind == ActivationKind::kSoftCap;
  run_edited(caps ? &KernelHooks::cap : &KernelHooks::activate, call, call.count);
}

void FaultyKernels::run(const AddCall& call) {
  run_edited(call.a == nullptr ? &KernelHooks::scale : &KernelHooks::add, call, call.count);
}

void FaultyKernels::run(const CutoffCall& call) {
  run_edited(&KernelHooks::cutoff, call, call.n_tokens * call.width);
}

void FaultyKernels::run(const StreamsCall& call) {
  run_edited(&KernelHooks::streams, call, call.n_tokens * call.n_out() * call.width);
}

void FaultyKernels::run(const SpreadCall& call) {
  run_edited(&KernelHooks::spread, call, call.n_tokens * call.n_used * call.width);
}

void FaultyKernels::run(const MixCall& call) {
  run_edited(&KernelHooks::mix, call, call.n_tokens * call.width);
}

void FaultyKernels::run(const IndexCall& call) {
  run_on_host(&KernelHooks::index, call);
  std::vector<float> positions(call.indexed, call.indexed + call.n_tokens * call.shape.top_k);
  keep({call.site.checkpoint, call.site.layer},
       {positions.data(), call.n_tokens, call.shape.top_k, call.site.first_position});
}

void FaultyKernels::run(const SelectCall& call) {
  run_on_host(&KernelHooks::select, call);
  std::vector<float> ids(call.ids, call.ids + call.n_tokens * call.routing.n_used);
  keep({call.site.checkpoint, call.site.layer},
       {ids.data(), call.n_tokens, call.routing.n_used, call.site.first_position});
}

void FaultyKernels::run(const WeighCall& call) {
  run_on_host(&KernelHooks::weigh, call);
  keep({call.site.checkpoint, call.site.layer},
       {call.weights, call.n_tokens, call.routing.n_used, call.site.first_position});
}

}  // namespace assay
