#include "model/hf_names.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace assay {
namespace {

// The module whose output is the mixture of the experts' results.
constexpr std::string_view kMixture = "experts";

// What most models have. "A/B" is tensor A where checkpoint B is computed with it.
constexpr HfName kNames[] = {
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

constexpr HfName kGemma[] = {{"ffn_norm", "pre_feedforward_layernorm"}};
constexpr HfName kGemma4[] = {kGemma[0],
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
constexpr HfName kGpt2[] = {{"token_embd", "transformer.wte"},
                            {"position_embd", "transformer.wpe"},
                            {"output_norm", "transformer.ln_f"},
                            {"attn_norm", "ln_1"},
                            {"attn_qkv", "attn.c_attn"},
                            {"attn_output", "attn.c_proj"},
                            {"ffn_norm", "ln_2"},
                            {"ffn_up", "mlp.c_fc"},
                            {"ffn_down", "mlp.c_proj"}};
constexpr HfName kPhi2[] = {{"output_norm", "model.final_layernorm"},
                            {"attn_q_norm", "self_attn.q_layernorm"},
                            {"attn_k_norm", "self_attn.k_layernorm"},
                            {"attn_output", "self_attn.dense"},
                            {"ffn_up", "mlp.fc1"},
                            {"ffn_down", "mlp.fc2"}};
constexpr HfName kPhi3[] = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};
constexpr HfName kGptNeoX[] = {{"token_embd", "gpt_neox.embed_in"},
                               {"output_norm", "gpt_neox.final_layer_norm"},
                               {"output", "embed_out"},
                               {"attn_qkv", "attention.query_key_value"},
                               {"attn_output", "attention.dense"},
                               {"ffn_up", "mlp.dense_h_to_4h"},
                               {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr HfName kFalcon[] = {{"token_embd", "transformer.word_embeddings"},
                              {"output_norm", "transformer.ln_f"},
                              {"attn_norm_2", "ln_attn"},
                              {"attn_norm/ffn_norm", "ln_mlp"},
                              {"attn_qkv", "self_attention.query_key_value"},
                              {"attn_output", "self_attention.dense"},
                              {"ffn_up", "mlp.dense_h_to_4h"},
                              {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr HfName kGlm4[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                            {"ffn_up", "mlp.gate_up_proj"},
                            {"post_ffw_norm", "post_mlp_layernorm"}};
constexpr HfName kStarcoder2[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
constexpr HfName kStableLm[] = {{"attn_q_norm", "self_attn.q_layernorm"},
                                {"attn_k_norm", "self_attn.k_layernorm"}};
// Where modules were renamed, files may have the older name too.
constexpr HfName kMixtral[] = {{"ffn_gate_inp", "mlp.gate"},
                               {"ffn_gate_inp", "block_sparse_moe.gate"}};
constexpr HfName kMinimaxM2[] = {{"ffn_gate_inp", "mlp.gate"},
                                 {"ffn_gate_inp", "block_sparse_moe.gate"},
                                 {"exp_probs_b", "block_sparse_moe.e_score_correction_bias"}};
constexpr HfName kQwen2Moe[] = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
constexpr HfName kErnieMoe[] = {{"exp_probs_b", "mlp.moe_statics.e_score_correction_bias"}};
constexpr HfName kGraniteMoe[] = {{"ffn_gate_inp", "block_sparse_moe.router"},
                                  {"ffn_gate_inp", "block_sparse_moe.router.layer"},
                                  {kMixture, "block_sparse_moe.experts"}};
constexpr HfName kGraniteHybrid[] = {{"ssm_in", "mamba.in_proj"},
                                     {"ssm_conv1d", "mamba.conv1d"},
                                     {"ssm_a", "mamba.A_log"},
                                     {"ssm_d", "mamba.D"},
                                     {"ssm_dt", "mamba.dt_bias"},
                                     {"ssm_norm", "mamba.norm"},
                                     {"ssm_out", "mamba.out_proj"},
                                     {"ffn_gate", "shared_mlp.input_linear"},
                                     {"ffn_up", "shared_mlp.input_linear"},
                                     {"ffn_down", "shared_mlp.output_linear"},
                                     {"ffn_gate_shexp", "shared_mlp.input_linear"},
                                     {"ffn_up_shexp", "shared_mlp.input_linear"},
                                     {"ffn_down_shexp", "shared_mlp.output_linear"},
                                     kGraniteMoe[0],
                                     kGraniteMoe[1],
                                     kGraniteMoe[2]};
constexpr HfName kNemotronH[] = {{"token_embd", "model.embeddings"},
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
constexpr HfName kMamba2[] = {{"token_embd", "backbone.embeddings"},
                              {"output_norm", "backbone.norm_f"},
                              kNemotronH[2],
                              kNemotronH[7],
                              kNemotronH[8],
                              kNemotronH[9],
                              kNemotronH[10],
                              kNemotronH[11],
                              kNemotronH[12],
                              kNemotronH[13]};
constexpr HfName kFalconH1[] = {{"output_norm", "model.final_layernorm"},
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
constexpr const char* kOfSsm = "ssm_multipliers";
constexpr HfScale kFalconH1Scales[] = {
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
constexpr HfName kApertus[] = {{"attn_norm", "attention_layernorm"},
                               {"ffn_norm", "feedforward_layernorm"}};
constexpr HfName kHunyuan[] = {{"attn_q_norm", "self_attn.query_layernorm"},
                               {"attn_k_norm", "self_attn.key_layernorm"}};
constexpr HfName kLfm2[] = {{"token_embd_norm", "model.embedding_norm"},
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
constexpr HfName kQwen35[] = {{"attn_qkv/linear_qkv", "linear_attn.in_proj_qkv"},
                              {"attn_gate", "linear_attn.in_proj_z"},
                              {"ssm_beta", "linear_attn.in_proj_b"},
                              {"ssm_alpha", "linear_attn.in_proj_a"}};
constexpr HfName kQwen35Moe[] = {kQwen35[0],   kQwen35[1],   kQwen35[2],  kQwen35[3],
                                 kQwen2Moe[0], kQwen2Moe[1], kQwen2Moe[2]};
constexpr HfName kQwen3Next[] = {{"attn_qkv/linear_qkv", "linear_attn.in_proj_qkvz"},
                                 {"attn_gate", "linear_attn.in_proj_qkvz"},
                                 {"ssm_ba", "linear_attn.in_proj_ba"},
                                 kQwen2Moe[0],
                                 kQwen2Moe[1],
                                 kQwen2Moe[2]};
// Its files call the norm before the experts as others call the norm after the attention.
constexpr HfName kGptOss[] = {{"ffn_gate_inp", "mlp.router"}};

constexpr HfModel kModels[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "mistral", .architecture = "llama", .window = HfWindow::kAll},
    {.model_type = "ministral3", .architecture = "mistral3", .window = HfWindow::kAll},
    {.model_type = "mixtral",
     .architecture = "llama",
     .names = kMixtral,
     .experts = HfExperts::kNumbered,
     .window = HfWindow::kAll},
    {.model_type = "qwen2", .architecture = "qwen2", .window = HfWindow::kFlagged},
    {.model_type = "qwen2_moe",
     .architecture = "qwen2moe",
     .names = kQwen2Moe,
     .window = HfWindow::kEven},
    {.model_type = "qwen3", .architecture = "qwen3", .window = HfWindow::kFlagged},
    {.model_type = "qwen3_moe", .architecture = "qwen3moe", .window = HfWindow::kFlagged},
    {.model_type = "phi3", .architecture = "phi3", .names = kPhi3, .window = HfWindow::kAll},
    {.model_type = "olmo2", .architecture = "olmo2"},
    {.model_type = "olmo3", .architecture = "olmo2", .window = HfWindow::kSome},
    {.model_type = "olmoe", .architecture = "olmoe"},
    {.model_type = "granite", .architecture = "granite"},
    {.model_type = "granitemoe",
     .architecture = "granitemoe",
     .names = kGraniteMoe,
     .experts = HfExperts::kTogether},
    {.model_type = "granitemoehybrid",
     .architecture = "granitehybrid",
     .names = kGraniteHybrid,
     .experts = HfExperts::kTogether,
     .rotates_by_name = true,
     .inner_is_expanded = true,
     .shared_mlp = true},
    {.model_type = "gpt2",
     .architecture = "gpt2",
     .layers = "transformer.h",
     .names = kGpt2,
     .transposed = true},
    {.model_type = "gemma", .architecture = "gemma", .norm_plus_one = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .names = kGemma,
     .norm_plus_one = true,
     .window = HfWindow::kSome},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .names = kGemma,
     .heads_first = true,
     .norm_plus_one = true,
     .window = HfWindow::kSome},
    {.model_type = "gemma4_text",
     .architecture = "gemma4",
     .names = kGemma4,
     .rotated_alone = true,
     .experts = HfExperts::kOfLayer,
     .window = HfWindow::kSome,
     .last_without_window = true,
     .sees_ahead_in_images = true},
    {.model_type = "phi", .architecture = "phi2", .names = kPhi2, .heads_first = true},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .layers = "gpt_neox.layers",
     .names = kGptNeoX,
     .fused_by_kv_head = true},
    {.model_type = "falcon",
     .architecture = "falcon",
     .layers = "transformer.h",
     .names = kFalcon,
     .fused_by_kv_head = true},
    {.model_type = "gpt_bigcode",
     .architecture = "starcoder",
     .layers = "transformer.h",
     .names = kGpt2},
    {.model_type = "starcoder2",
     .architecture = "starcoder2",
     .names = kStarcoder2,
     .window = HfWindow::kAll},
    {.model_type = "cohere", .architecture = "command-r", .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "cohere2",
     .architecture = "cohere2",
     .rope_pairing = RopePairing::kAdjacent,
     .window = HfWindow::kSome},
    {.model_type = "stablelm",
     .architecture = "stablelm",
     .names = kStableLm,
     .heads_first = true,
     .norm_modules = true},
    {.model_type = "smollm3", .architecture = "smollm3", .window = HfWindow::kFlagged},
    {.model_type = "nemotron", .architecture = "nemotron", .norm_plus_one = true},
    {.model_type = "nemotron_h",
     .architecture = "nemotron_h",
     .experts_architecture = "nemotron_h_moe",
     .names = kNemotronH,
     .experts = HfExperts::kMixer,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true,
     .stored_model = "backbone.",
     .left_out = "mtp."},
    {.model_type = "mamba2",
     .architecture = "mamba2",
     .layers = "backbone.layers",
     .names = kMamba2,
     .inner_is_expanded = true},
    {.model_type = "falcon_h1",
     .architecture = "falcon-h1",
     .names = kFalconH1,
     .inner_is_expanded = true,
     .scales = kFalconH1Scales},
    {.model_type = "exaone4",
     .architecture = "exaone4",
     .heads_first = true,
     .window = HfWindow::kSome},
    {.model_type = "glm4",
     .architecture = "glm4",
     .names = kGlm4,
     .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "glm4_moe",
     .architecture = "glm4moe",
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "dots1",
     .architecture = "dots1",
     .window = HfWindow::kAll,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "minimax_m2",
     .architecture = "minimax-m2",
     .names = kMinimaxM2,
     .experts = HfExperts::kNumbered,
     .choice_bias = true,
     .rotary_dim = true},
    {.model_type = "ernie4_5", .architecture = "ernie4_5", .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "ernie4_5_moe",
     .architecture = "ernie4_5-moe",
     .names = kErnieMoe,
     .rope_pairing = RopePairing::kAdjacent,
     .routing = HfRouting::kStepped,
     .choice_bias = true,
     .choice_bias_row = true,
     .left_out = "model.mtp_"},
    {.model_type = "hunyuan_v1_dense",
     .architecture = "hunyuan-dense",
     .names = kHunyuan,
     .heads_first = true},
    {.model_type = "arcee", .architecture = "arcee"},
    {.model_type = "apertus", .architecture = "apertus", .names = kApertus, .heads_first = true},
    {.model_type = "seed_oss", .architecture = "seed_oss"},
    {.model_type = "gpt_oss",
     .architecture = "gpt-oss",
     .names = kGptOss,
     .experts = HfExperts::kInterleaved,
     .window = HfWindow::kSome},
    {.model_type = "deepseek_v2",
     .architecture = "deepseek2",
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_emb",
     .routing = HfRouting::kSoftmax},
    {.model_type = "deepseek_v3",
     .architecture = "deepseek2",
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_pos_emb_interleave",
     .rotated_to_halves = true,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "lfm2", .architecture = "lfm2", .names = kLfm2},
    {.model_type = "lfm2_moe",
     .architecture = "lfm2moe",
     .names = kLfm2,
     .experts = HfExperts::kFeedForward,
     .choice_bias = true},
    {.model_type = "qwen3_5_text",
     .architecture = "qwen35",
     .names = kQwen35,
     .norm_plus_one = true,
     .left_out = "mtp."},
    {.model_type = "qwen3_5_moe_text",
     .architecture = "qwen35moe",
     .names = kQwen35Moe,
     .norm_plus_one = true,
     .left_out = "mtp."},
    {.model_type = "qwen3_next",
     .architecture = "qwen3next",
     .names = kQwen3Next,
     .fused_by_kv_head = true,
     .norm_plus_one = true,
     .left_out = "mtp."},
};

const HfName* find_name(std::span<const HfName> names, std::string_view tensor) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const HfName& name) { return name.tensor == tensor; });
  return found == names.end() ? nullptr : &*found;
}

// Of q, k and v, which a file may have in one tensor, the tensor of their own.
std::string_view of_attention(const OpSpec& op) {
  if (op.out == Checkpoint::kQ && op.tensor != "attn_q_b") return "attn_q";
  if (op.out == Checkpoint::kK) return "attn_k";
  return op.out == Checkpoint::kV ? "attn_v" : "";
}

}  // namespace

std::span<const HfModel> hf_models() {
  return kModels;
}

const HfModel* find_hf_model(std::string_view model_type) {
  const auto* found =
      std::find_if(std::begin(kModels), std::end(kModels),
                   [&](const HfModel& model) { return model.model_type == model_type; });
  return found == std::end(kModels) ? nullptr : found;
}

std::vector<const Architecture*> architectures_of(const HfModel& model) {
  std::vector<const Architecture*> found;
  for (const std::string_view name : {model.architecture, model.experts_architecture}) {
    const Architecture* architecture = find_architecture(name);
    if (architecture != nullptr) found.push_back(architecture);
  }
  return found;
}

std::vector<std::string_view> hf_modules(const HfModel& model, std::string_view tensor) {
  std::vector<std::string_view> modules;
  const auto add = [&](std::span<const HfName> names) {
    for (const HfName& name : names) {
      if (name.tensor.substr(0, name.tensor.find('/')) == tensor) modules.push_back(name.module);
    }
  };
  add(model.names);
  if (find_name(model.names, tensor) == nullptr) add(kNames);
  return modules;
}

std::string_view hf_module(const HfModel& model, std::string_view tensor) {
  const HfName* name = find_name(model.names, tensor);
  if (name == nullptr) name = find_name(kNames, tensor);
  return name == nullptr ? "" : name->module;
}

std::string_view hf_module(const HfModel& model, const OpSpec& op) {
  if (op.kind == OpKind::kMix) {
    return is_of_shared_expert(op.out) ? std::string_view() : hf_module(model, kMixture);
  }
  if (op.kind != OpKind::kNorm && op.kind != OpKind::kLinear && op.kind != OpKind::kConv) return "";
  // A parameter of a larger module, or a module whose output all layers share.
  if (op.suffix != kWeightSuffix || op.of_model) return "";
  const std::string special = std::string(op.tensor) + "/" + std::string(checkpoint_op(op.out));
  if (const HfName* name = find_name(model.names, special)) return name->module;
  const std::string_view separate = of_attention(op);
  if (separate.empty()) return hf_module(model, op.tensor);
  const std::string_view fused = hf_module(model, "attn_qkv");
  return fused.empty() ? hf_module(model, separate) : fused;
}

}  // namespace assay
