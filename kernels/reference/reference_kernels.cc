#include "kernels/reference/reference.h"

namespace assay {
namespace {

class ReferenceKernels final : public Kernels {
 public:
  std::string_view name() const override { return "reference"; }

  void run(const GetRowsCall& call) override { reference::run(call); }
  void run(std::span<const MatmulCall> calls) override {
    for (const MatmulCall& call : calls) reference::run(call);
  }
  void run(const NormCall& call) override { reference::run(call); }
  void run(const RopeCall& call) override { reference::run(call); }
  void run(const HeadsCall& call) override { reference::run(call); }
  void run(const StoreKvCall& call) override { reference::run(call); }
  void run(const AttentionCall& call) override { reference::run(call); }
  void run(const ConvCall& call) override { reference::run(call); }
  void run(const DeltaCall& call) override { reference::run(call); }
  void run(const SsmCall& call) override { reference::run(call); }
  void run(const ActivateCall& call) override { reference::run(call); }
  void run(const AddCall& call) override { reference::run(call); }
  void run(const CutoffCall& call) override { reference::run(call); }
  void run(const StreamsCall& call) override { reference::run(call); }
  void run(const SpreadCall& call) override { reference::run(call); }
  void run(const MixCall& call) override { reference::run(call); }
  using Kernels::run;
};

}  // namespace

std::unique_ptr<Kernels> make_reference_kernels() {
  return std::make_unique<ReferenceKernels>();
}

}  // namespace assay
