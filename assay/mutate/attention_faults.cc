#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {

std::vector<Fault> attention_faults() {
  constexpr FaultGroup kGroup = FaultGroup::kAttention;
  std::vector<Fault> faults;
  faults.push_back(in_op<AttentionCall>(
      {"heads-interleaved", kGroup, "heads are joined as [head_dim, n_heads]", "head_order"},
      Checkpoint::kAttn, any_model, &KernelHooks::attention,
      [](const OpContext&, AttentionCall call, Kernels& kernels) {
        kernels.run(call);
        const int64_t heads = call.shape.n_heads;
        const int64_t dim = call.shape.head_dim;
        for (int64_t t = 0; t < call.n_tokens; ++t) {
          float* row = call.out + t * heads * dim;
          const std::vector<float> right(row, row + heads * dim);
          for (int64_t i = 0; i < heads * dim; ++i) {
            row[i % dim * heads + i / dim] = right[static_cast<size_t>(i)];
          }
        }
      }));
  return faults;
}

}  // namespace assay::mutate
