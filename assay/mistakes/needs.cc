#include "assay/mistakes/needs.h"

#include <algorithm>
#include <utility>

namespace assay::mistakes {
namespace {

const Architecture& architecture(const Model& model) {
  return *model.config().architecture;
}

std::string needs_activation(const Model& model, ActivationKind kind, const char* name) {
  return architecture(model).activation == kind ? "" : std::string("it has no ") + name;
}

}  // namespace

std::string any_model(const Model& /*model*/) {
  return {};
}

UnsupportedReason needs(std::string what, std::function<bool(const ModelConfig&)> has) {
  return [what = std::move(what), has = std::move(has)](const Model& model) {
    return has(model.config()) ? std::string() : "it has no " + what;
  };
}

std::string needs_rotary(const Model& model) {
  return model.config().find(Checkpoint::kQRope) != nullptr ? "" : "it has no rotary embedding";
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

std::string needs_query_product(const Model& model) {
  const bool has = std::ranges::any_of(model.config().layers, [](const LayerConfig& layer) {
    const OpSpec* q = find_spec(layer.ops, Checkpoint::kQ);
    return q != nullptr && q->kind == OpKind::kLinear;
  });
  return has ? "" : "its queries are no product of their own";
}

std::string needs_gate(const Model& model) {
  return model.config().find(Checkpoint::kFfnGate) != nullptr ? "" : "its feed-forward has no gate";
}

std::string needs_conv(const Model& model) {
  return model.config().find(Checkpoint::kConv) != nullptr ? "" : "it has no convolution";
}

std::string needs_linear_attention(const Model& model) {
  return model.config().find(Checkpoint::kDelta) != nullptr ? "" : "it has no linear attention";
}

std::string needs_linear_conv(const Model& model) {
  return model.config().find(Checkpoint::kLinearConv) != nullptr
             ? ""
             : "it has neither linear attention nor Mamba-2";
}

std::string needs_ssm(const Model& model) {
  return model.config().find(Checkpoint::kSsm) != nullptr ? "" : "it has no state space model";
}

std::string needs_silu(const Model& model) {
  return needs_activation(model, ActivationKind::kSilu, "SiLU");
}
std::string needs_gelu(const Model& model) {
  return needs_activation(model, ActivationKind::kGeluTanh, "GELU by tanh");
}
std::string needs_exact_gelu(const Model& model) {
  return needs_activation(model, ActivationKind::kGelu, "GELU by erf");
}
std::string needs_relu_squared(const Model& model) {
  return needs_activation(model, ActivationKind::kReluSquared, "square of ReLU");
}

std::string needs_rms_norm(const Model& model) {
  return architecture(model).norm == NormKind::kRms ? "" : "it has no RMSNorm";
}

std::string needs_layer_norm(const Model& model) {
  return architecture(model).norm == NormKind::kLayer ? "" : "it has no LayerNorm";
}

}  // namespace assay::mistakes
