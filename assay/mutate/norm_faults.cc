#include <algorithm>
#include <cmath>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kNorm;

using Hook = KernelHooks::Hook<NormCall>;

Fault in_norm(FaultText text, UnsupportedReason unsupported_reason, Hook hook) {
  return in_op<NormCall>(std::move(text), Checkpoint::kAttnNorm, std::move(unsupported_reason),
                         &KernelHooks::norm, std::move(hook));
}

// The norm with another weight for each element.
Hook with_weight(std::function<float(float)> edit) {
  return [edit = std::move(edit)](const OpContext&, NormCall call, Kernels& kernels) {
    std::vector<float> weight(call.weight, call.weight + call.width);
    std::transform(weight.begin(), weight.end(), weight.begin(), edit);
    call.weight = weight.data();
    kernels.run(call);
  };
}

// x / (sqrt(mean square, or variance) + eps), where eps belongs under the root.
void with_eps_outside(const OpContext&, NormCall call, Kernels& kernels) {
  const float eps = call.eps;
  call.eps = 0.0F;
  kernels.run(call);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const float* x = call.x + t * call.width;
    const auto n = static_cast<double>(call.width);
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < call.width; ++i) {
      sum += x[i];
      squares += static_cast<double>(x[i]) * x[i];
    }
    const double mean = call.kind == NormKind::kRms ? 0.0 : sum / n;
    const double root = std::sqrt(squares / n - mean * mean);
    const double factor = root / (root + eps);
    for (int64_t i = 0; i < call.width; ++i) {
      const float bias = call.bias == nullptr ? 0.0F : call.bias[i];
      float& out = call.out[t * call.width + i];
      out = static_cast<float>((out - bias) * factor + bias);
    }
  }
}

}  // namespace

std::vector<Fault> norm_faults() {
  std::vector<Fault> faults;
  faults.push_back(
      in_norm({"eps-wrong", kGroup, "eps is 1e-6 for 1e-5, or 1e-5 for another", "eps"}, any_model,
              [](const OpContext&, NormCall call, Kernels& kernels) {
                call.eps = call.eps == 1e-5F ? 1e-6F : 1e-5F;
                kernels.run(call);
              }));
  faults.push_back(in_norm({"eps-missing", kGroup, "eps is 0", "eps"}, any_model,
                           [](const OpContext&, NormCall call, Kernels& kernels) {
                             call.eps = 0.0F;
                             kernels.run(call);
                           }));
  faults.push_back(
      in_norm({"eps-outside-root", kGroup, "eps is added to the root, not under it", "eps"},
              any_model, with_eps_outside));
  faults.push_back(in_norm(
      {"layer-norm-for-rms", kGroup, "the mean is subtracted as LayerNorm does", "norm_kind"},
      needs_rms_norm, [](const OpContext&, NormCall call, Kernels& kernels) {
        call.kind = NormKind::kLayer;
        kernels.run(call);
      }));
  faults.push_back(
      in_norm({"rms-for-layer-norm", kGroup,
               "the mean is not subtracted, as in RMSNorm; the bias is added", "norm_kind"},
              needs_layer_norm, [](const OpContext&, NormCall call, Kernels& kernels) {
                call.kind = NormKind::kRms;
                kernels.run(call);
                for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
                  call.out[i] += call.bias[i % call.width];
                }
              }));
  faults.push_back(
      in_norm({"norm-weight-plus-one", kGroup, "1 is added to the weight, as Gemma's files want it",
               "norm_weight_plus_one"},
              any_model, with_weight([](float weight) { return weight + 1.0F; })));
  faults.push_back(in_norm({"norm-weight-missing", kGroup, "the weight is left out"}, any_model,
                           with_weight([](float) { return 1.0F; })));
  faults.push_back(in_norm({"norm-bias-missing", kGroup, "the bias is left out", "bias_missing"},
                           needs_layer_norm, [](const OpContext&, NormCall call, Kernels& kernels) {
                             call.bias = nullptr;
                             kernels.run(call);
                           }));
  faults.push_back(in_norm(
      {"norm-unbiased-variance", kGroup, "the squares are divided by the width less one", "scale"},
      any_model, [](const OpContext&, NormCall call, Kernels& kernels) {
        const auto width = static_cast<float>(call.width);
        const float factor = std::sqrt((width - 1.0F) / width);
        std::vector<float> weight(call.weight, call.weight + call.width);
        for (float& each : weight) each *= factor;
        call.weight = weight.data();
        kernels.run(call);
      }));
  faults.push_back(in_norm({"norm-missing", kGroup, "x goes on as it is"}, any_model,
                           [](const OpContext&, NormCall call, Kernels&) {
                             std::copy_n(call.x, call.n_tokens * call.width, call.out);
                           }));
  return faults;
}

}  // namespace assay::mutate
