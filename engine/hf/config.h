#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "kernels/calls.h"
#include "model/architecture.h"
#include "model/hf_names.h"

namespace assay {

struct TextPart;  // class_defaults.h

// The tensors that layers may have or do without, by what config.json says; the tensors of a folder
// show the same, and count there.
struct HfParts {
  bool qkv_bias = false;
  bool post_norms = true;    // of what is added to the residual stream, where layers may do without
  bool output_bias = false;  // of the attention's last product
  bool ffn_bias = false;
  bool head_norms = false;    // of q and k, where the architecture may do without
  bool two_norms = false;     // of what enters the layer: falcon's
  bool choice_bias = false;   // of the choice of experts
  bool conv_bias = false;     // of the convolution of Mamba-2
  bool ssm_norm = true;       // of what Mamba-2 gives
  bool logits_bias = false;   // of the output matrix, where the architecture may do without
  std::vector<bool> values;   // of each layer: whether it has a product of them; empty: all have
  std::vector<bool> experts;  // of each layer: whether it has experts
  // Whether it has a convolution, linear attention or Mamba-2 in the place of full attention.
  std::vector<bool> conv;
  // Of layers with one of attention, a feed-forward or Mamba-2: which it is. Empty: they have more.
  std::vector<bool> attends;
  std::vector<bool> feeds_forward;
};

// What so many rows of a tensor, behind those of the scale before, are multiplied by.
struct HfRowsScale {
  int64_t count = 0;  // 0: all
  double factor = 1.0;
};

// What a config.json of Hugging Face says, as a GGUF file of the same model would say it.
struct HfConfig {
  const HfModel* model = nullptr;
  const Architecture* architecture = nullptr;
  const TextPart* text_part = nullptr;  // of a model of several networks, it is that of text
  int64_t n_vocab = 0;
  int64_t n_layers = 0;
  int64_t embedding_length = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;          // of layers without a window, where those have another
  int64_t n_experts = 0;         // of a layer; 0: it has none
  int64_t n_dense_layers = 0;    // before the first with experts
  int64_t expert_step = 1;       // of those behind, every nth of all layers has them
  int64_t n_ignored_layers = 0;  // behind the network's own, which transformers does not read
  int64_t context_length = 0;
  int64_t feed_forward_length = 0;
  int64_t n_shared_kv_layers = 0;  // the last, which read keys and values of earlier ones
  int64_t ple_length = 0;          // of a token's embedding in each layer; 0: they have none
  int64_t ple_tokens = 0;          // how many have one; 0: all
  int64_t n_streams = 1;           // residual streams
  int64_t laurel_rank = 0;
  int64_t expert_feed_forward_length = 0;  // of an expert, where layers have any
  int64_t shared_feed_forward_length = 0;  // beside experts; else 0
  DeltaShape delta;                // of linear attention, Mamba or Mamba-2; else without heads
  int64_t ssm_rank = 0;            // of Mamba: what the steps are a product of
  int64_t rotary_dim = 0;          // 0 where positions are learned
  bool tied = false;               // the output matrix is the token embedding
  bool tied_is_stated = false;     // otherwise the tensors decide
  bool shares_expert = false;      // layers with experts have one that all tokens use
  bool has_q_lora = false;         // of latent attention: q is the product of a latent vector
  bool keys_as_values = false;     // in layers without a window
  std::vector<bool> windowed;      // each layer's; empty: as the architecture has it
  std::vector<bool> indexed;       // whether a layer chooses positions; empty: all do, or none
  bool parallel_residual = false;  // attention and feed-forward read the same input
  HfParts parts;
  // Of the tensors that GGUF files have multiplied by numbers of config.json.
  std::map<std::string, std::vector<HfRowsScale>, std::less<>> scales;
  // Under GGUF's keys, numbers rounded to 32 bits as its writers do; and under those of
  // hyperparameter::own, which GGUF does not have.
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::deque<std::string> made;  // what metadata's arrays point to
  // Divisors of the rotary frequencies, [rotary_dim / 2] each, by the name of their tensor.
  std::map<std::string, std::vector<float>> rope_factors;

  bool shares_kv(int64_t layer) const { return layer >= n_layers - n_shared_kv_layers; }
};

// Reads `json` as the config.json of a model whose architecture Assay knows. Keys that do not
// affect the computation are ignored. Throws Error that names `where` and the key if one is
// missing, out of range, or asks for what Assay does not compute.
HfConfig read_hf_config(const std::string& json, const std::string& where);

inline constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
inline constexpr char kConfigHint[] = "give a model's config.json as the hub has it";

// The values of `model_type` that can be read, those of text before others, for messages: "llama,
// mistral, ...".
std::string hf_model_types();

}  // namespace assay
