#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model_config.h"
#include "kernels/kernels.h"

namespace assay {

// Where a call is, for a fault to look at.
struct OpContext {
  const OpSite& site;
  const ModelConfig& config;
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
  std::function<bool(const OpSite&)> applies;
};

// What other kernels make of the same calls, beside the ones with hooks. Stores are left out.
struct KernelShadow {
  Kernels* kernels = nullptr;  // null: none
  // `want` is of the same shape as `got`.
  std::function<void(const OpContext&, OpResult got, const float* want)> compare = {};
};

// Kernels with hooks around each call. The memory must be the host's.
class FaultyKernels : public Kernels {
 public:
  // `config` and `kernels` must outlive it.
  FaultyKernels(const ModelConfig& config, Kernels& kernels, KernelHooks hooks,
                KernelShadow shadow = {});

  std::string_view name() const override { return kernels_.name(); }
  Memory& memory() override { return kernels_.memory(); }

  void run(const GetRowsCall& call) override;
  void run(std::span<const MatmulCall> calls) override;
  void run(const NormCall& call) override;
  void run(const RopeCall& call) override;
  void run(const StoreKvCall& call) override;
  void run(const AttentionCall& call) override;
  void run(const ActivateCall& call) override;
  void run(const AddCall& call) override;

 private:
  template <class Call>
  void run_hooked(const KernelHooks::Hook<Call>& hook, const Call& call, int64_t count);

  const ModelConfig& config_;
  Kernels& kernels_;
  KernelHooks hooks_;
  KernelShadow shadow_;
  std::vector<float> shadow_values_;
};

}  // namespace assay
