#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace assay {
namespace {

// In the order of the enum.
constexpr std::string_view kOps[kCheckpoints] = {
    "embedding",
    "altup_proj",
    "streams",
    "altup_norm",
    "altup_router",
    "altup_modes",
    "altup_coefs",
    "predictions",
    "active",
    "attn_norm",
    "laurel_left",
    "laurel_right",
    "laurel_norm",
    "laurel_out",
    "q_a",
    "q_a_norm",
    "kv_a",
    "kv_a_norm",
    "kv_b",
    "q_and_gate",
    "q",
    "attn_gate",
    "k",
    "v",
    "q_norm",
    "k_norm",
    "v_norm",
    "q_clip",
    "k_clip",
    "v_clip",
    "q_rope",
    "k_rope",
    "q_rope_norm",
    "k_rope_norm",
    "index_q",
    "index_k",
    "index_k_norm",
    "index_q_rope",
    "index_k_rope",
    "index_weights",
    "indexed",
    "conv_b",
    "conv_c",
    "conv_x",
    "linear_qkv",
    "ssm_x",
    "linear_z",
    "linear_ba",
    "linear_b",
    "linear_a",
    "ssm_xbc",
    "ssm_dt",
    "attn",
    "gated_attn",
    "attn_sub_norm",
    "conv",
    "linear_conv",
    "delta",
    "delta_norm",
    "ssm_dt_in",
    "ssm_b",
    "ssm_c",
    "ssm_dt_norm",
    "ssm_b_norm",
    "ssm_c_norm",
    "ssm_step",
    "ssm",
    "ssm_norm",
    "ssm_gated",
    "attn_out",
    "ssm_out",
    "mixer_out",
    "post_attn_norm",
    "attn_residual",
    "attn_laurel",
    "ffn_norm",
    "expert_norm",
    "router_norm",
    "router",
    "experts",
    "expert_weights",
    "expert_in",
    "ffn_gate",
    "ffn_up",
    "ffn_cutoff",
    "ffn_act",
    "ffn_sub_norm",
    "expert_out",
    "routed_out",
    "routed_norm",
    "shared_gate",
    "shared_up",
    "shared_act",
    "shared_out",
    "shared_score",
    "shared_weight",
    "shared_scaled",
    "shared_norm",
    "ffn_out",
    "post_ffn_norm",
    "ffn_residual",
    "correct_norm",
    "correct_router",
    "correct_modes",
    "correct_coefs",
    "corrected",
    "corrected_first",
    "ple_embedding",
    "ple_proj",
    "ple_proj_norm",
    "ple_input",
    "ple_gate",
    "ple_act",
    "ple_out",
    "ple_norm",
    "streams_out",
    "unembedded",
    "output",
    "final_norm",
    "logits",
};

}  // namespace

std::string_view checkpoint_op(Checkpoint checkpoint) {
  return kOps[static_cast<size_t>(checkpoint)];
}

std::optional<Checkpoint> find_checkpoint(std::string_view op, bool in_layer) {
  const auto* found = std::find(std::begin(kOps), std::end(kOps), op);
  if (found == std::end(kOps)) return std::nullopt;
  const auto checkpoint = static_cast<Checkpoint>(found - std::begin(kOps));
  return is_in_layer(checkpoint) == in_layer ? std::optional(checkpoint) : std::nullopt;
}

std::string checkpoint_name(Checkpoint checkpoint, int layer) {
  if (!is_in_layer(checkpoint)) return std::string(checkpoint_op(checkpoint));
  return fmt::format("layer_{}_{}", layer, checkpoint_op(checkpoint));
}

}  // namespace assay
