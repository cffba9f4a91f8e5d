#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "assay/mistakes/network.h"
#include "kernels/kernels.h"

namespace assay::mistakes {

// What an edit of a call can read besides the call: where it is in the network, and what the
// network is.
struct OpContext {
  const OpSite& site;
  const Network& network;
  const Inputs& inputs;    // of an engine's call the positions alone
  double parameter = 0;    // of the mistake
  int64_t n_together = 0;  // positions below it go through the network together, as a prompt does

  Op op() const { return {site.checkpoint, is_in_layer(site.checkpoint) ? site.layer : -1}; }
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

// Runs an edited `call` on `kernels`, the right ones, or does something else that fills call.out.
template <class Call>
using Hook = std::function<void(const OpContext&, Call call, Kernels& kernels)>;

// What is done in the place of calls. An empty one leaves the call as it is.
struct KernelHooks {
  Hook<GetRowsCall> get_rows = {};
  Hook<MatmulCall> matmul = {};
  Hook<NormCall> norm = {};
  Hook<RopeCall> rope = {};
  Hook<HeadsCall> heads = {};
  Hook<AttentionCall> attention = {};
  Hook<IndexCall> index = {};
  Hook<ConvCall> conv = {};
  Hook<DeltaCall> delta = {};
  Hook<SsmCall> ssm = {};
  Hook<ActivateCall> activate = {};
  Hook<AddCall> add = {};
  Hook<AddCall> scale = {};     // of calls without `a`, which only multiply
  Hook<ActivateCall> cap = {};  // of kSoftCap; `activate` of all others
  Hook<CutoffCall> cutoff = {};
  Hook<StreamsCall> streams = {};
  Hook<SpreadCall> spread = {};
  Hook<MixCall> mix = {};
  Hook<SelectCall> select = {};
  Hook<WeighCall> weigh = {};
  // After a checkpoint is finished; may change it. Not after a store.
  std::function<void(const OpContext&, OpResult result)> after = {};
};

template <class Call>
void run_hooked(const Hook<Call>& hook, const OpContext& context, const Call& call,
                Kernels& kernels) {
  if (hook) {
    hook(context, call, kernels);
  } else {
    kernels.run(call);
  }
}

}  // namespace assay::mistakes
