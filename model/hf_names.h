#pragma once

#include <span>
#include <string_view>

#include "model/op.h"

namespace assay {

// Where transformers (Hugging Face) holds a tensor of a model file.
struct HfName {
  std::string_view tensor;  // as OpSpec::tensor, or a name outside of the layers: "token_embd"
  std::string_view module;  // path in transformers' model; within a layer, from that layer on
};

// A kind of transformers' models: where its modules are, and how their weights differ from those of
// a GGUF file.
struct HfModel {
  std::string_view model_type;                      // in config.json
  std::string_view architecture;                    // general.architecture of its GGUF files
  std::string_view layers = "model.layers";         // the list of the layers
  std::span<const HfName> names = {};               // that differ from what most have
  RopePairing rope_pairing = RopePairing::kHalves;  // which rows of q and k it rotates together
  // A module of q, k and v together has, for each key-value head, its queries, then k, then v.
  // Others have all of q, then k, then v.
  bool fused_by_kv_head = false;
  bool heads_first = false;    // norms of q and k are given [heads, tokens, head_dim]
  bool transposed = false;     // weights of linear modules are [inputs, outputs]
  bool norm_plus_one = false;  // the weight of a norm is this much less than in a GGUF file
};

std::span<const HfModel> hf_models();

// The path of a tensor's module; empty if that kind of model has none of its own.
std::string_view hf_module(const HfModel& model, std::string_view tensor);

// The path of the module that computes an op of a layer, alone or with the next parts of it: q, k
// and v may be one module in transformers and three tensors in a file, and the other way round.
std::string_view hf_module(const HfModel& model, const OpSpec& op);

}  // namespace assay
