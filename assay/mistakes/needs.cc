#include "assay/mistakes/needs.h"

namespace assay::mistakes {
namespace {

const Architecture& architecture(const Model& model) {
  return *model.config().architecture;
}

}  // namespace

std::string any_model(const Model& /*model*/) {
  return {};
}

std::string needs_rotary(const Model& model) {
  return architecture(model).position == PositionKind::kRotary ? "" : "it has no rotary embedding";
}

std::string needs_learned_positions(const Model& model) {
  return architecture(model).position == PositionKind::kLearned ? "" : "it learned no positions";
}

std::string needs_grouped_heads(const Model& model) {
  const ModelConfig& config = model.config();
  return config.n_kv_heads > 1 && config.n_heads > config.n_kv_heads
             ? ""
             : "its query heads are not in groups, or in one";
}

std::string needs_gate(const Model& model) {
  return architecture(model).activation == ActivationKind::kSiluGated
             ? ""
             : "its feed-forward has no gate";
}

std::string needs_gelu(const Model& model) {
  return architecture(model).activation == ActivationKind::kGeluTanh ? "" : "it has no GELU";
}

std::string needs_rms_norm(const Model& model) {
  return architecture(model).norm == NormKind::kRms ? "" : "it has no RMSNorm";
}

std::string needs_layer_norm(const Model& model) {
  return architecture(model).norm == NormKind::kLayer ? "" : "it has no LayerNorm";
}

}  // namespace assay::mistakes
