#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "model/architecture.h"
#include "model/hf_names.h"

namespace assay {

// What a config.json of Hugging Face says, as a GGUF file of the same model would say it.
struct HfConfig {
  const HfModel* model = nullptr;
  const Architecture* architecture = nullptr;
  int64_t n_vocab = 0;
  int64_t n_layers = 0;
  int64_t embedding_length = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t n_experts = 0;           // of a layer; 0: it has none
  int64_t n_ignored_layers = 0;    // behind the network's own, which transformers does not read
  int64_t rotary_dim = 0;          // 0 where positions are learned
  bool tied = false;               // the output matrix is the token embedding
  bool tied_is_stated = false;     // otherwise the tensors decide
  bool attention_bias = false;     // of q, k and v, where it says so
  bool mlp_bias = false;           // of the feed-forward, where it says so
  bool parallel_residual = false;  // attention and feed-forward read the same input
  // Under GGUF's keys, numbers rounded to 32 bits as its writers do; and under those of
  // hyperparameter::own, which GGUF does not have.
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::deque<std::string> made;  // what metadata's arrays point to
  // Divisors of the rotary frequencies, [rotary_dim / 2] each, by the name of their tensor.
  std::map<std::string, std::vector<float>> rope_factors;
};

// Reads `json` as the config.json of a model whose architecture Assay knows. Keys that do not
// affect the computation are ignored. Throws Error that names `where` and the key if one is
// missing, out of range, or asks for what Assay does not compute.
HfConfig read_hf_config(const std::string& json, const std::string& where);

inline constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
inline constexpr char kConfigHint[] = "give a model's config.json as the hub has it";

// The values of `model_type` that can be read, for messages: "llama, mistral, ...".
std::string hf_model_types();

}  // namespace assay
