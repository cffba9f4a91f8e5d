#include "assay/causes/stages.h"

namespace assay::causes {

using mistakes::Network;
using mistakes::Op;

std::vector<std::vector<Op>> stages_of(const Network& network) {
  std::vector<std::vector<Op>> stages = {{{Checkpoint::kEmbedding, -1}}};
  for (int layer = 0; layer < network.n_layers; ++layer) {
    for (const OpSpec& spec : network.layer(layer)) {
      if (reads_back(spec.kind)) stages.emplace_back();
      stages.back().push_back({spec.out, layer});
    }
  }
  stages.back().push_back({Checkpoint::kFinalNorm, -1});
  stages.back().push_back({Checkpoint::kLogits, -1});
  return stages;
}

}  // namespace assay::causes
