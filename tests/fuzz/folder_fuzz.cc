// The weights of a Hugging Face folder from outside either load or are refused with an Error. The
// first byte says which network config.json states, and whether the rest is a file of weights or
// the index of several.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/hf/config.h"
#include "engine/model.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

namespace fs = std::filesystem;

// One of each way in which a folder's tensors differ from a GGUF file's.
constexpr std::array<std::string_view, 8> kNetworks = {
    R"("model_type": "llama", "num_key_value_heads": 1, "tie_word_embeddings": true)",
    R"("model_type": "gpt2")",
    R"("model_type": "gpt_neox", "rotary_pct": 0.5, "hidden_act": "gelu")",
    R"("model_type": "stablelm", "num_key_value_heads": 2, "partial_rotary_factor": 0.5,
       "qk_layernorm": true, "use_parallel_residual": true)",
    R"("model_type": "nemotron", "partial_rotary_factor": 0.5, "hidden_act": "relu2")",
    R"("model_type": "mixtral", "num_key_value_heads": 2, "num_local_experts": 2,
       "num_experts_per_tok": 1)",
    R"("model_type": "gpt_oss", "num_key_value_heads": 2, "num_local_experts": 2,
       "num_experts_per_tok": 1, "head_dim": 4)",
    R"("model_type": "deepseek_v3", "n_routed_experts": 2, "num_experts_per_tok": 1,
       "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, "q_lora_rank": 3,
       "kv_lora_rank": 3, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 2)"};
constexpr std::string_view kShape = R"(, "vocab_size": 3, "hidden_size": 8, "num_hidden_layers": 1,
  "num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 4,
  "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "norm_eps": 1e-5)";

std::string config_of(std::string_view network) {
  return fmt::format("{{{}{}}}", network, kShape);
}

// How many networks there are, all of which are read: no input gets past a config.json that is
// refused.
size_t n_readable() {
  for (const std::string_view network : kNetworks) {
    assay::read_hf_config(config_of(network), "config.json");
  }
  return kNetworks.size();
}

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const assay::fuzz::ScratchFolder folder;
  static const size_t n_networks = n_readable();
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool is_index = data[0] / n_networks % 2 == 1;
  const std::string weights = folder.path + "/model.safetensors";
  const std::string index = folder.path + "/model.safetensors.index.json";
  fs::remove(is_index ? weights : index);
  write(folder.path + "/config.json", config_of(kNetworks[data[0] % n_networks]));
  write(is_index ? index : weights, rest);
  try {
    const assay::Model model(std::make_shared<const assay::Gguf>(folder.path));
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
