#include "engine/probe.h"

#include <fmt/format.h>

#include <string_view>

namespace assay {
namespace {

std::string_view name_in_layer(Checkpoint checkpoint) {
  switch (checkpoint) {
    case Checkpoint::kAttnNorm:
      return "attn_norm";
    case Checkpoint::kQ:
      return "q";
    case Checkpoint::kK:
      return "k";
    case Checkpoint::kV:
      return "v";
    case Checkpoint::kQRope:
      return "q_rope";
    case Checkpoint::kKRope:
      return "k_rope";
    case Checkpoint::kAttn:
      return "attn";
    case Checkpoint::kAttnOut:
      return "attn_out";
    case Checkpoint::kAttnResidual:
      return "attn_residual";
    case Checkpoint::kFfnNorm:
      return "ffn_norm";
    case Checkpoint::kFfnGate:
      return "ffn_gate";
    case Checkpoint::kFfnUp:
      return "ffn_up";
    case Checkpoint::kFfnAct:
      return "ffn_act";
    case Checkpoint::kFfnOut:
      return "ffn_out";
    case Checkpoint::kOutput:
      return "output";
    case Checkpoint::kEmbedding:
    case Checkpoint::kFinalNorm:
    case Checkpoint::kLogits:
      break;
  }
  return {};
}

}  // namespace

std::string checkpoint_name(Checkpoint checkpoint, int layer) {
  switch (checkpoint) {
    case Checkpoint::kEmbedding:
      return "embedding";
    case Checkpoint::kFinalNorm:
      return "final_norm";
    case Checkpoint::kLogits:
      return "logits";
    default:
      return fmt::format("layer_{}_{}", layer, name_in_layer(checkpoint));
  }
}

}  // namespace assay
