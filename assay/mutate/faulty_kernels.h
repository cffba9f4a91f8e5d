#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "assay/mutate/fault.h"

namespace assay {

// What other kernels make of the same calls, beside the ones with hooks. Stores are left out.
struct KernelShadow {
  Kernels* kernels = nullptr;  // null: none
  // `want` is of the same shape as `got`.
  std::function<void(const OpContext&, OpResult got, const float* want)> compare = {};
};

// Kernels with edits around each call. The memory must be the host's.
class FaultyKernels : public Kernels {
 public:
  // All but the shadow must outlive it.
  FaultyKernels(const mistakes::Network& network, Kernels& kernels, const Injection& injection,
                KernelShadow shadow = {});

  std::string_view name() const override { return kernels_.name(); }
  Memory& memory() override { return kernels_.memory(); }

  void run(const GetRowsCall& call) override;
  void run(std::span<const MatmulCall> calls) override;
  void run(const NormCall& call) override;
  void run(const RopeCall& call) override;
  void run(const HeadsCall& call) override;
  void run(const StoreKvCall& call) override;
  void run(const AttentionCall& call) override;
  void run(const IndexCall& call) override;
  void run(const ConvCall& call) override;
  void run(const DeltaCall& call) override;
  void run(const SsmCall& call) override;
  void run(const ActivateCall& call) override;
  void run(const AddCall& call) override;
  void run(const CutoffCall& call) override;
  void run(const StreamsCall& call) override;
  void run(const SpreadCall& call) override;
  void run(const MixCall& call) override;
  void run(const SelectCall& call) override;
  void run(const WeighCall& call) override;
  using Kernels::run;

 private:
  template <class Call>
  void run_edited(mistakes::Hook<Call> KernelHooks::*hook, const Call& call, int64_t count);

  template <class Call>
  void run_on_host(mistakes::Hook<Call> KernelHooks::*hook, const Call& call);

  const mistakes::Network& network_;
  Kernels& kernels_;
  const Injection& injection_;
  KernelShadow shadow_;
  mistakes::Inputs inputs_of(const OpSite& site) const;
  const mistakes::Network& network_at(const OpSite& site) const {
    return network_.at({site.checkpoint, is_in_layer(site.checkpoint) ? site.layer : -1});
  }
  void keep(mistakes::Op op, const OpResult& result);

  std::vector<float> shadow_values_;
  std::vector<float> shadow_state_;
  int64_t n_together_ = 0;  // tokens of the first batch, which is the prompt
  // The latest result of each op; edits may read others than the inputs of theirs.
  std::map<mistakes::Op, std::shared_ptr<const mistakes::Matrix>> results_;
};

}  // namespace assay
