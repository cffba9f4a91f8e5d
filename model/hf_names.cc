#include "model/hf_names.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "model/hf_modules.h"

namespace assay {
namespace {

constexpr HfModel kModels[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "internlm3", .architecture = "llama"},
    {.model_type = "iquestcoder", .architecture = "llama"},
    {.model_type = "helium", .architecture = "llama", .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "llama4_text",
     .architecture = "llama4",
     .names = module_names::kLlama4,
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_emb",
     .rotated_by_tokens = true,
     .experts = HfExperts::kTransposed,
     .window = HfWindow::kChunked,
     .routing = HfRouting::kLlama4,
     .router_gives_scores = true},
    {.model_type = "mistral", .architecture = "llama", .window = HfWindow::kAll},
    {.model_type = "ministral", .architecture = "llama", .window = HfWindow::kAll},
    {.model_type = "ministral3", .architecture = "mistral3", .window = HfWindow::kAll},
    {.model_type = "mixtral",
     .architecture = "llama",
     .names = module_names::kMixtral,
     .experts = HfExperts::kNumbered,
     .window = HfWindow::kAll},
    {.model_type = "qwen2", .architecture = "qwen2", .window = HfWindow::kFlagged},
    {.model_type = "qwen2_moe",
     .architecture = "qwen2moe",
     .names = module_names::kQwen2Moe,
     .window = HfWindow::kEven},
    {.model_type = "qwen3", .architecture = "qwen3", .window = HfWindow::kFlagged},
    {.model_type = "qwen3_moe", .architecture = "qwen3moe", .window = HfWindow::kFlagged},
    {.model_type = "phi3",
     .architecture = "phi3",
     .names = module_names::kPhi3,
     .window = HfWindow::kAll},
    {.model_type = "phimoe",
     .architecture = "phimoe",
     .names = module_names::kPhiMoe,
     .experts = HfExperts::kNumbered,
     .window = HfWindow::kAll,
     .routing = HfRouting::kMixer,
     .own_mscales = true},
    {.model_type = "olmo", .architecture = "olmo", .names = module_names::kOlmo, .norm_eps = 1e-5},
    {.model_type = "olmo2", .architecture = "olmo2"},
    {.model_type = "olmo3", .architecture = "olmo2", .window = HfWindow::kSome},
    {.model_type = "olmoe", .architecture = "olmoe"},
    {.model_type = "granite", .architecture = "granite"},
    {.model_type = "granitemoe",
     .architecture = "granitemoe",
     .names = module_names::kGraniteMoe,
     .experts = HfExperts::kTogether},
    {.model_type = "granitemoeshared",
     .architecture = "granitemoe",
     .names = module_names::kGraniteShared,
     .experts = HfExperts::kTogether,
     .shared_mlp = true},
    {.model_type = "granite_swa", .architecture = "granite_swa", .window = HfWindow::kFourths},
    {.model_type = "granitemoe_swa",
     .architecture = "granite_swa",
     .names = module_names::kGraniteShared,
     .experts = HfExperts::kOfBlock,
     .window = HfWindow::kFourths,
     .shared_mlp = true},
    {.model_type = "granitemoehybrid",
     .architecture = "granitehybrid",
     .names = module_names::kGraniteHybrid,
     .experts = HfExperts::kTogether,
     .rotates_by_name = true,
     .inner_is_expanded = true,
     .shared_mlp = true},
    {.model_type = "bamba",
     .architecture = "granitehybrid",
     .names = module_names::kFalconH1,
     .inner_is_expanded = true},
    {.model_type = "gpt2",
     .architecture = "gpt2",
     .layers = "transformer.h",
     .names = module_names::kGpt2,
     .transposed = true},
    {.model_type = "bloom",
     .architecture = "bloom",
     .layers = "transformer.h",
     .names = module_names::kBloom,
     .fused_by_kv_head = true,
     .adds_in_feed_forward = true},
    {.model_type = "mpt",
     .architecture = "mpt",
     .layers = "transformer.blocks",
     .names = module_names::kMpt,
     .adds_in_feed_forward = true},
    {.model_type = "gemma", .architecture = "gemma", .norm_plus_one = true, .gelu_is_tanh = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .names = module_names::kGemma,
     .norm_plus_one = true,
     .window = HfWindow::kSome},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .names = module_names::kGemma,
     .heads_first = true,
     .norm_plus_one = true,
     .window = HfWindow::kSome},
    {.model_type = "gemma4_text",
     .architecture = "gemma4",
     .names = module_names::kGemma4,
     .rotated_alone = true,
     .experts = HfExperts::kOfLayer,
     .window = HfWindow::kSome,
     .last_without_window = true,
     .sees_ahead_in_images = true},
    {.model_type = "phi",
     .architecture = "phi2",
     .names = module_names::kPhi2,
     .heads_first = true},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .layers = "gpt_neox.layers",
     .names = module_names::kGptNeoX,
     .fused_by_kv_head = true},
    {.model_type = "falcon",
     .architecture = "falcon",
     .layers = "transformer.h",
     .names = module_names::kFalcon,
     .fused_by_kv_head = true},
    {.model_type = "gpt_bigcode",
     .architecture = "starcoder",
     .layers = "transformer.h",
     .names = module_names::kGpt2},
    {.model_type = "starcoder2",
     .architecture = "starcoder2",
     .names = module_names::kStarcoder2,
     .window = HfWindow::kAll},
    {.model_type = "cohere", .architecture = "command-r", .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "cohere2",
     .architecture = "cohere2",
     .rope_pairing = RopePairing::kAdjacent,
     .window = HfWindow::kSome},
    {.model_type = "cohere2_moe",
     .architecture = "cohere2moe",
     .rope_pairing = RopePairing::kAdjacent,
     .window = HfWindow::kPrefixed,
     .routing = HfRouting::kPrefixed},
    {.model_type = "stablelm",
     .architecture = "stablelm",
     .names = module_names::kStableLm,
     .heads_first = true,
     .norm_modules = true},
    {.model_type = "smollm3", .architecture = "smollm3", .window = HfWindow::kFlagged},
    {.model_type = "jais2", .architecture = "jais2"},
    {.model_type = "nemotron", .architecture = "nemotron", .norm_plus_one = true},
    {.model_type = "nemotron_h",
     .architecture = "nemotron_h",
     .experts_architecture = "nemotron_h_moe",
     .names = module_names::kNemotronH,
     .experts = HfExperts::kMixer,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true,
     .stored_model = "backbone.",
     .left_out = "mtp.",
     .bounds_steps = true},
    {.model_type = "mamba2",
     .architecture = "mamba2",
     .layers = "backbone.layers",
     .names = module_names::kMamba2,
     .inner_is_expanded = true},
    {.model_type = "falcon_h1",
     .architecture = "falcon-h1",
     .names = module_names::kFalconH1,
     .inner_is_expanded = true,
     .scales = module_names::kFalconH1Scales},
    {.model_type = "exaone4",
     .architecture = "exaone4",
     .heads_first = true,
     .window = HfWindow::kSome},
    {.model_type = "exaone_moe",
     .architecture = "exaone-moe",
     .names = module_names::kExaoneMoe,
     .heads_first = true,
     .window = HfWindow::kSome,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true,
     .left_out = "mtp."},
    {.model_type = "glm4",
     .architecture = "glm4",
     .names = module_names::kGlm4,
     .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "glm4_moe",
     .architecture = "glm4moe",
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "mellum",
     .architecture = "mellum",
     .window = HfWindow::kListed,
     .left_out = "mtp."},
    {.model_type = "hy_v3",
     .architecture = "hy_v3",
     .names = module_names::kHyV3,
     .heads_first = true,
     .routing = HfRouting::kSigmoid,
     .n_dense_layers = 1,
     .choice_bias = true},
    {.model_type = "solar_open",
     .architecture = "glm4moe",
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "glm4_moe_lite",
     .architecture = "deepseek2",
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_pos_emb_interleave",
     .rotated_to_halves = true,
     .routing = HfRouting::kSigmoid,
     .n_dense_layers = 1,
     .choice_bias = true},
    {.model_type = "afmoe",
     .architecture = "afmoe",
     .names = module_names::kAfmoe,
     .window = HfWindow::kSome,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "dots1",
     .architecture = "dots1",
     .window = HfWindow::kAll,
     .routing = HfRouting::kSigmoid,
     .choice_bias = true},
    {.model_type = "mimo_v2_flash",
     .architecture = "mimo2",
     .names = module_names::kMimo2,
     .window = HfWindow::kSixths,
     .routing = HfRouting::kSigmoid,
     .n_dense_layers = 1,
     .windowed_sinks = true,
     .choice_bias = true,
     .left_out = "model.mtp."},
    {.model_type = "minimax_m2",
     .architecture = "minimax-m2",
     .names = module_names::kMinimaxM2,
     .experts = HfExperts::kNumbered,
     .choice_bias = true,
     .rotary_dim = true},
    {.model_type = "ernie4_5", .architecture = "ernie4_5", .rope_pairing = RopePairing::kAdjacent},
    {.model_type = "ernie4_5_moe",
     .architecture = "ernie4_5-moe",
     .names = module_names::kErnieMoe,
     .rope_pairing = RopePairing::kAdjacent,
     .routing = HfRouting::kStepped,
     .choice_bias = true,
     .choice_bias_row = true,
     .left_out = "model.mtp_"},
    {.model_type = "hunyuan_v1_dense",
     .architecture = "hunyuan-dense",
     .names = module_names::kHunyuan,
     .heads_first = true,
     .stretched_base = true},
    {.model_type = "hunyuan_v1_moe",
     .architecture = "hunyuan-moe",
     .names = module_names::kHunyuanMoe,
     .heads_first = true,
     .routing = HfRouting::kHunyuan,
     .stretched_base = true},
    {.model_type = "arcee", .architecture = "arcee"},
    {.model_type = "apertus",
     .architecture = "apertus",
     .names = module_names::kApertus,
     .heads_first = true},
    {.model_type = "seed_oss", .architecture = "seed_oss"},
    {.model_type = "gpt_oss",
     .architecture = "gpt-oss",
     .names = module_names::kGptOss,
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
    {.model_type = "youtu",
     .architecture = "deepseek2",
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_pos_emb_interleave",
     .rotated_to_halves = true},
    {.model_type = "minicpm3", .architecture = "minicpm3"},
    {.model_type = "mistral4",
     .architecture = "mistral4",
     .rope_pairing = RopePairing::kAdjacent,
     .rotation = "apply_rotary_pos_emb_interleave",
     .rotated_to_halves = true,
     .experts = HfExperts::kStacked,
     .routing = HfRouting::kNormalised,
     .share_of_whole_head = true},
    {.model_type = "lfm2", .architecture = "lfm2", .names = module_names::kLfm2},
    {.model_type = "lfm2_moe",
     .architecture = "lfm2moe",
     .names = module_names::kLfm2,
     .experts = HfExperts::kFeedForward,
     .choice_bias = true},
    {.model_type = "qwen3_5_text",
     .architecture = "qwen35",
     .names = module_names::kQwen35,
     .norm_plus_one = true,
     .left_out = "mtp."},
    {.model_type = "qwen3_5_moe_text",
     .architecture = "qwen35moe",
     .names = module_names::kQwen35Moe,
     .norm_plus_one = true,
     .left_out = "mtp."},
    {.model_type = "qwen3_next",
     .architecture = "qwen3next",
     .names = module_names::kQwen3Next,
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
  if (find_name(model.names, tensor) == nullptr) add(module_names::kNames);
  return modules;
}

std::string_view hf_module(const HfModel& model, std::string_view tensor) {
  const HfName* name = find_name(model.names, tensor);
  if (name == nullptr) name = find_name(module_names::kNames, tensor);
  return name == nullptr ? "" : name->module;
}

std::string_view hf_module(const HfModel& model, const OpSpec& op) {
  if (op.kind == OpKind::kMix) {
    return is_of_shared_expert(op.out) ? std::string_view()
                                       : hf_module(model, module_names::kMixture);
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
