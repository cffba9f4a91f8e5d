#pragma once

#include <string_view>

#include "model/hf_names.h"

// Where transformers' models have their modules, where not all have the same, and the numbers that
// some multiply by what these compute (hf_names.cc).
namespace assay::module_names {

// The module whose output is the mixture of the experts' results.
inline constexpr std::string_view kMixture = "experts";

// What most models have. "A/B" is tensor A where checkpoint B is computed with it.
inline constexpr HfName kNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_sinks", "self_attn.sinks"},
    {"indexer.attn_q_b", "self_attn.indexer.wq_b"},
    {"indexer.attn_k", "self_attn.indexer.wk"},
    {"indexer.k_norm", "self_attn.indexer.k_norm"},
    {"indexer.proj", "self_attn.indexer.weights_proj"},
    {"attn_sub_norm", "self_attn.attn_sub_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt", "linear_attn.dt_bias"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_sub_norm", "mlp.ffn_sub_norm"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias"},
    {kMixture, "mlp.experts"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

inline constexpr HfName kGemma[] = {{"ffn_norm", "pre_feedforward_layernorm"}};
inline constexpr HfName kGemma4[] = {kGemma[0],
                                     {"layer_output_scale", "layer_scalar"},
                                     {"/v_norm", "self_attn.v_norm"},
                                     {"ffn_gate_inp", "router.proj"},
                                     {"ffn_gate_inp.scale", "router.scale"},
                                     {"ffn_down_exps.scale", "router.per_expert_scale"},
                                     {kMixture, "experts"},
                                     {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
                                     {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
                                     {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
                                     {"per_layer_token_embd", "model.embed_tokens_per_layer"},
                                     {"per_layer_model_proj", "model.per_layer_model_projection"},
                                     {"per_layer_proj_norm", "model.per_layer_projection_norm"},
                                     {"inp_gate", "per_layer_input_gate"},
                                     {"proj", "per_layer_projection"},
                                     {"post_norm", "post_per_layer_input_norm"}};
inline constexpr HfName kGemma3n[] = {kGemma4[0],
                                      kGemma4[2],
                                      kGemma4[10],
                                      kGemma4[11],
                                      kGemma4[12],
                                      kGemma4[13],
                                      kGemma4[14],
                                      kGemma4[15],
                                      {"altup_proj", "model.altup_projections.{}"},
                                      {"altup_unembd_proj", "model.altup_unembed_projections.{}"},
                                      {"altup_router_norm", "altup.router_norm"},
                                      {"altup_router", "altup.modality_router"},
                                      {"altup_predict_coef", "altup.prediction_coefs"},
                                      {"altup_correct_coef", "altup.correction_coefs"},
                                      {"altup_correct_scale", "altup.correct_output_scale"},
                                      {"laurel_l", "laurel.linear_left"},
                                      {"laurel_r", "laurel.linear_right"},
                                      {"laurel_post_norm", "laurel.post_laurel_norm"}};
// Norms without weights.
inline constexpr HfName kOlmo[] = {{"/attn_norm", "input_layernorm"},
                                   {"/ffn_norm", "post_attention_layernorm"}};
inline constexpr HfName kNanoChat[] = {kOlmo[0],
                                       kOlmo[1],
                                       {"/q_rope_norm", "self_attn.q_norm"},
                                       {"/k_rope_norm", "self_attn.k_norm"},
                                       {"ffn_up", "mlp.fc1"},
                                       {"ffn_down", "mlp.fc2"}};
inline constexpr HfName kMimo2[] = {{"attn_sinks", "self_attn.sinks"},
                                    {"attn_sinks", "self_attn.attention_sink_bias"}};
inline constexpr HfName kGpt2[] = {{"token_embd", "transformer.wte"},
                                   {"position_embd", "transformer.wpe"},
                                   {"output_norm", "transformer.ln_f"},
                                   {"attn_norm", "ln_1"},
                                   {"attn_qkv", "attn.c_attn"},
                                   {"attn_output", "attn.c_proj"},
                                   {"ffn_norm", "ln_2"},
                                   {"ffn_up", "mlp.c_fc"},
                                   {"ffn_down", "mlp.c_proj"}};
inline constexpr HfName kGptJ[] = {kGpt2[0],
                                   kGpt2[2],
                                   kGpt2[3],
                                   {"attn_q", "attn.q_proj"},
                                   {"attn_k", "attn.k_proj"},
                                   {"attn_v", "attn.v_proj"},
                                   {"attn_output", "attn.out_proj"},
                                   {"ffn_up", "mlp.fc_in"},
                                   {"ffn_down", "mlp.fc_out"}};
inline constexpr HfName kOpt[] = {{"token_embd", "model.decoder.embed_tokens"},
                                  {"position_embd", "model.decoder.embed_positions"},
                                  {"output_norm", "model.decoder.final_layer_norm"},
                                  {"attn_norm", "self_attn_layer_norm"},
                                  {"attn_output", "self_attn.out_proj"},
                                  {"ffn_norm", "final_layer_norm"},
                                  {"ffn_up", "fc1"},
                                  {"ffn_down", "fc2"}};
inline constexpr HfName kPhi2[] = {{"output_norm", "model.final_layernorm"},
                                   {"attn_q_norm", "self_attn.q_layernorm"},
                                   {"attn_k_norm", "self_attn.k_layernorm"},
                                   {"attn_output", "self_attn.dense"},
                                   {"ffn_up", "mlp.fc1"},
                                   {"ffn_down", "mlp.fc2"}};
inline constexpr HfName kPhi3[] = {{"attn_qkv", "self_attn.qkv_proj"},
                                   {"ffn_up", "mlp.gate_up_proj"}};
inline constexpr HfName kGptNeoX[] = {{"token_embd", "gpt_neox.embed_in"},
                                      {"output_norm", "gpt_neox.final_layer_norm"},
                                      {"output", "embed_out"},
                                      {"attn_qkv", "attention.query_key_value"},
                                      {"attn_output", "attention.dense"},
                                      {"ffn_up", "mlp.dense_h_to_4h"},
                                      {"ffn_down", "mlp.dense_4h_to_h"}};
inline constexpr HfName kPersimmon[] = {
    kPhi2[0],    kPhi2[1],   kPhi2[2], kPhi2[3], {"attn_qkv", "self_attn.query_key_value"},
    kGptNeoX[5], kGptNeoX[6]};
inline constexpr HfName kFalcon[] = {{"token_embd", "transformer.word_embeddings"},
                                     {"output_norm", "transformer.ln_f"},
                                     {"attn_norm_2", "ln_attn"},
                                     {"attn_norm/ffn_norm", "ln_mlp"},
                                     {"attn_qkv", "self_attention.query_key_value"},
                                     {"attn_output", "self_attention.dense"},
                                     {"ffn_up", "mlp.dense_h_to_4h"},
                                     {"ffn_down", "mlp.dense_4h_to_h"}};
inline constexpr HfName kBloom[] = {
    kFalcon[0], {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    kFalcon[1], kFalcon[4],
    kFalcon[5], kFalcon[6],
    kFalcon[7]};
inline constexpr HfName kAfmoe[] = {{"attn_gate", "self_attn.gate_proj"},
                                    {"ffn_norm", "pre_mlp_layernorm"},
                                    {"ffn_gate_inp", "mlp.router.gate"},
                                    {"exp_probs_b", "mlp.expert_bias"},
                                    {"post_ffw_norm", "post_mlp_layernorm"}};
inline constexpr HfName kHyV3[] = {{"ffn_gate_inp", "mlp.gate"},
                                   {"ffn_gate_inp", "mlp.router.gate"},
                                   {"exp_probs_b", "mlp.e_score_correction_bias"},
                                   {"exp_probs_b", "mlp.expert_bias"},
                                   {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                                   {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
                                   {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                                   {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
                                   {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
                                   {"ffn_down_shexp", "mlp.shared_mlp.down_proj"}};
inline constexpr HfName kGlm[] = {{"ffn_up", "mlp.gate_up_proj"}};
inline constexpr HfName kGlm4[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                                   kGlm[0],
                                   {"post_ffw_norm", "post_mlp_layernorm"}};
// Published files have that norm, which no layer without experts reads, in all layers.
inline constexpr HfName kAxk1[] = {{"post_ffw_norm", "mlp.post_mlp_layernorm"},
                                   {"post_ffw_norm", "post_mlp_layernorm"}};
inline constexpr HfName kStarcoder2[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
inline constexpr HfName kStableLm[] = {{"attn_q_norm", "self_attn.q_layernorm"},
                                       {"attn_k_norm", "self_attn.k_layernorm"}};
inline constexpr HfName kMpt[] = {
    {"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"},
    {"attn_norm", "norm_1"},           {"attn_qkv", "attn.Wqkv"},
    {"attn_output", "attn.out_proj"},  {"ffn_norm", "norm_2"},
    {"ffn_up", "ffn.up_proj"},         {"ffn_down", "ffn.down_proj"}};
inline constexpr HfName kDbrx[] = {kMpt[0],
                                   kMpt[1],
                                   {"attn_norm", "norm_attn_norm.norm_1"},
                                   {"attn_qkv", "norm_attn_norm.attn.Wqkv"},
                                   {"attn_output", "norm_attn_norm.attn.out_proj"},
                                   {"attn_output_norm", "norm_attn_norm.norm_2"},
                                   {"ffn_gate_inp", "ffn.router.layer"},
                                   {kMixture, "ffn.experts"}};
inline constexpr HfName kLlama4[] = {{"ffn_gate", "feed_forward.gate_proj"},
                                     {"ffn_up", "feed_forward.up_proj"},
                                     {"ffn_down", "feed_forward.down_proj"},
                                     {"ffn_gate_inp", "feed_forward.router"},
                                     {kMixture, ""},  // whose module gives each expert's own
                                     {"/q_rope_norm", "self_attn.qk_norm"},
                                     {"/k_rope_norm", "self_attn.qk_norm"},
                                     {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                                     {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                                     {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}};
// Where modules were renamed, files may have the older name too.
inline constexpr HfName kPhiMoe[] = {{"ffn_gate_inp", "mlp.router"},
                                     {"ffn_gate_inp", "block_sparse_moe.gate"}};
inline constexpr HfName kMixtral[] = {{"ffn_gate_inp", "mlp.gate"},
                                      {"ffn_gate_inp", "block_sparse_moe.gate"}};
inline constexpr HfName kMinimaxM2[] = {
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b", "block_sparse_moe.e_score_correction_bias"}};
inline constexpr HfName kQwen2Moe[] = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                       {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                       {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
inline constexpr HfName kErnieMoe[] = {{"exp_probs_b", "mlp.moe_statics.e_score_correction_bias"}};
inline constexpr HfName kHyperClovaX[] = {{"post_attention_norm", "post_norm1"},
                                          {"post_ffw_norm", "post_norm2"}};
inline constexpr HfName kGraniteMoe[] = {{"ffn_gate_inp", "block_sparse_moe.router"},
                                         {"ffn_gate_inp", "block_sparse_moe.router.layer"},
                                         {kMixture, "block_sparse_moe.experts"}};
// Of layers without experts the feed-forward is elsewhere.
inline constexpr HfName kGraniteShared[] = {kGraniteMoe[0],
                                            kGraniteMoe[1],
                                            kGraniteMoe[2],
                                            {"ffn_gate_shexp", "shared_mlp.input_linear"},
                                            {"ffn_up_shexp", "shared_mlp.input_linear"},
                                            {"ffn_down_shexp", "shared_mlp.output_linear"}};
inline constexpr HfName kGraniteHybrid[] = {{"ssm_in", "mamba.in_proj"},
                                            {"ssm_conv1d", "mamba.conv1d"},
                                            {"ssm_a", "mamba.A_log"},
                                            {"ssm_d", "mamba.D"},
                                            {"ssm_dt", "mamba.dt_bias"},
                                            {"ssm_norm", "mamba.norm"},
                                            {"ssm_out", "mamba.out_proj"},
                                            {"ffn_gate", "shared_mlp.input_linear"},
                                            {"ffn_up", "shared_mlp.input_linear"},
                                            {"ffn_down", "shared_mlp.output_linear"},
                                            kGraniteShared[3],
                                            kGraniteShared[4],
                                            kGraniteShared[5],
                                            kGraniteMoe[0],
                                            kGraniteMoe[1],
                                            kGraniteMoe[2]};
inline constexpr HfName kNemotronH[] = {{"token_embd", "model.embeddings"},
                                        {"output_norm", "model.norm_f"},
                                        {"attn_norm", "norm"},
                                        {"attn_q", "mixer.q_proj"},
                                        {"attn_k", "mixer.k_proj"},
                                        {"attn_v", "mixer.v_proj"},
                                        {"attn_output", "mixer.o_proj"},
                                        {"ssm_in", "mixer.in_proj"},
                                        {"ssm_conv1d", "mixer.conv1d"},
                                        {"ssm_a", "mixer.A_log"},
                                        {"ssm_d", "mixer.D"},
                                        {"ssm_dt", "mixer.dt_bias"},
                                        {"ssm_norm", "mixer.norm"},
                                        {"ssm_out", "mixer.out_proj"},
                                        {"ffn_up", "mixer.up_proj"},
                                        {"ffn_down", "mixer.down_proj"},
                                        {"ffn_gate_inp", "mixer.gate"},
                                        {"exp_probs_b", "mixer.gate.e_score_correction_bias"},
                                        {kMixture, "mixer.experts"},
                                        {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
                                        {"ffn_down_shexp", "mixer.shared_experts.down_proj"}};
inline constexpr HfName kMamba2[] = {{"token_embd", "backbone.embeddings"},
                                     {"output_norm", "backbone.norm_f"},
                                     kNemotronH[2],
                                     kNemotronH[7],
                                     kNemotronH[8],
                                     kNemotronH[9],
                                     kNemotronH[10],
                                     kNemotronH[11],
                                     kNemotronH[12],
                                     kNemotronH[13]};
// Norms without weights are modules of Falcon Mamba alone. dt_proj has weights, and is not called.
inline constexpr HfName kMamba[] = {{"token_embd", "backbone.embeddings"},
                                    {"output_norm", "backbone.norm_f"},
                                    kNemotronH[2],
                                    kNemotronH[7],
                                    kNemotronH[8],
                                    {"ssm_x", "mixer.x_proj"},
                                    {"/ssm_dt_norm", "mixer.dt_layernorm"},
                                    {"/ssm_b_norm", "mixer.b_layernorm"},
                                    {"/ssm_c_norm", "mixer.c_layernorm"},
                                    {"ssm_dt", "mixer.dt_proj"},
                                    kNemotronH[9],
                                    kNemotronH[10],
                                    kNemotronH[13]};
inline constexpr HfName kJamba[] = {{"output_norm", "model.final_layernorm"},
                                    kGraniteHybrid[0],
                                    kGraniteHybrid[1],
                                    {"ssm_x", "mamba.x_proj"},
                                    {"ssm_dt_norm", "mamba.dt_layernorm"},
                                    {"ssm_b_norm", "mamba.b_layernorm"},
                                    {"ssm_c_norm", "mamba.c_layernorm"},
                                    {"ssm_dt", "mamba.dt_proj"},
                                    kGraniteHybrid[2],
                                    kGraniteHybrid[3],
                                    kGraniteHybrid[6],
                                    {"ffn_norm", "pre_ff_layernorm"},
                                    {"ffn_gate", "feed_forward.gate_proj"},
                                    {"ffn_up", "feed_forward.up_proj"},
                                    {"ffn_down", "feed_forward.down_proj"},
                                    {"ffn_gate_inp", "feed_forward.router"},
                                    {kMixture, "feed_forward.experts"}};
inline constexpr HfName kFalconH1[] = {{"output_norm", "model.final_layernorm"},
                                       {"ffn_norm", "pre_ff_layernorm"},
                                       {"ffn_gate", "feed_forward.gate_proj"},
                                       {"ffn_up", "feed_forward.up_proj"},
                                       {"ffn_down", "feed_forward.down_proj"},
                                       kGraniteHybrid[0],
                                       kGraniteHybrid[1],
                                       kGraniteHybrid[2],
                                       kGraniteHybrid[3],
                                       kGraniteHybrid[4],
                                       kGraniteHybrid[5],
                                       kGraniteHybrid[6]};
inline constexpr const char* kOfSsm = "ssm_multipliers";
inline constexpr HfScale kFalconH1Scales[] = {
    {.tensor = "token_embd", .key = "embedding_multiplier"},
    {.tensor = "output", .key = "lm_head_multiplier"},
    {.tensor = "attn_q", .key = "attention_in_multiplier", .of_input = true},
    {.tensor = "attn_k", .key = "attention_in_multiplier", .of_input = true},
    {.tensor = "attn_v", .key = "attention_in_multiplier", .of_input = true},
    {.tensor = "attn_k", .key = "key_multiplier"},
    {.tensor = "attn_output", .key = "attention_out_multiplier"},
    {.tensor = "ssm_in", .key = "ssm_in_multiplier", .of_input = true},
    {.tensor = "ssm_in", .key = kOfSsm, .index = 0, .part = Checkpoint::kLinearZ},
    {.tensor = "ssm_in", .key = kOfSsm, .index = 1, .part = Checkpoint::kSsmXbc, .of_part = 1},
    {.tensor = "ssm_in", .key = kOfSsm, .index = 2, .part = Checkpoint::kSsmXbc, .of_part = 2},
    {.tensor = "ssm_in", .key = kOfSsm, .index = 3, .part = Checkpoint::kSsmXbc, .of_part = 3},
    {.tensor = "ssm_in", .key = kOfSsm, .index = 4, .part = Checkpoint::kSsmDt},
    {.tensor = "ssm_out", .key = "ssm_out_multiplier"},
    {.tensor = "ffn_gate", .key = "mlp_multipliers", .index = 0},
    {.tensor = "ffn_down", .key = "mlp_multipliers", .index = 1}};
inline constexpr HfName kApertus[] = {{"attn_norm", "attention_layernorm"},
                                      {"ffn_norm", "feedforward_layernorm"}};
inline constexpr HfName kHunyuan[] = {{"attn_q_norm", "self_attn.query_layernorm"},
                                      {"attn_k_norm", "self_attn.key_layernorm"}};
inline constexpr HfName kHunyuanMoe[] = {kHunyuan[0],
                                         kHunyuan[1],
                                         {"ffn_gate_inp", "mlp.gate.wg"},
                                         {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
                                         {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
                                         {"ffn_down_shexp", "mlp.shared_mlp.down_proj"}};
inline constexpr HfName kExaoneMoe[] = {{"exp_probs_b", "mlp.e_score_correction_bias"}};
inline constexpr HfName kLfm2[] = {{"token_embd_norm", "model.embedding_norm"},
                                   {"attn_norm", "operator_norm"},
                                   {"attn_q_norm", "self_attn.q_layernorm"},
                                   {"attn_k_norm", "self_attn.k_layernorm"},
                                   {"attn_output", "self_attn.out_proj"},
                                   {"ffn_norm", "ffn_norm"},
                                   {"ffn_gate", "feed_forward.w1"},
                                   {"ffn_up", "feed_forward.w3"},
                                   {"ffn_down", "feed_forward.w2"},
                                   {"ffn_gate_inp", "feed_forward.gate"},
                                   {"exp_probs_b", "feed_forward.expert_bias"},
                                   {kMixture, "feed_forward.experts"}};
inline constexpr HfName kQwen35[] = {{"attn_qkv/linear_qkv", "linear_attn.in_proj_qkv"},
                                     {"attn_gate", "linear_attn.in_proj_z"},
                                     {"ssm_beta", "linear_attn.in_proj_b"},
                                     {"ssm_alpha", "linear_attn.in_proj_a"}};
inline constexpr HfName kQwen35Moe[] = {kQwen35[0],   kQwen35[1],   kQwen35[2],  kQwen35[3],
                                        kQwen2Moe[0], kQwen2Moe[1], kQwen2Moe[2]};
inline constexpr HfName kQwen3Next[] = {{"attn_qkv/linear_qkv", "linear_attn.in_proj_qkvz"},
                                        {"attn_gate", "linear_attn.in_proj_qkvz"},
                                        {"ssm_ba", "linear_attn.in_proj_ba"},
                                        kQwen2Moe[0],
                                        kQwen2Moe[1],
                                        kQwen2Moe[2]};
// Its files call the norm before the experts as others call the norm after the attention.
inline constexpr HfName kGptOss[] = {{"ffn_gate_inp", "mlp.router"}};

}  // namespace assay::module_names
