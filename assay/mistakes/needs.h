#pragma once

#include <functional>
#include <string>

#include "engine/model.h"

namespace assay::mistakes {

// Why a model cannot have a mistake: "it has no rotary embedding". Empty: it can.
using UnsupportedReason = std::function<std::string(const Model&)>;

std::string any_model(const Model& model);
// "it has no <what>", unless it has.
UnsupportedReason needs(std::string what, std::function<bool(const ModelConfig&)> has);
std::string needs_rotary(const Model& model);
std::string needs_learned_positions(const Model& model);
std::string needs_grouped_heads(const Model& model);  // more than one kv head, and more q heads
std::string needs_query_product(const Model& model);  // not a part of one with the gates
std::string needs_gate(const Model& model);
std::string needs_conv(const Model& model);
std::string needs_linear_attention(const Model& model);
std::string needs_linear_conv(const Model& model);  // that, or Mamba-2
std::string needs_ssm(const Model& model);
std::string needs_gelu(const Model& model);
std::string needs_silu(const Model& model);
std::string needs_exact_gelu(const Model& model);
std::string needs_relu_squared(const Model& model);
std::string needs_rms_norm(const Model& model);
std::string needs_layer_norm(const Model& model);

}  // namespace assay::mistakes
