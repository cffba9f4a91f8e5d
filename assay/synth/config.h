#pragma once

#include <string>
#include <vector>

#include "engine/model_config.h"

namespace assay {

// The shape of a model, as in its config.json on a model hub.
struct SynthConfig {
  ModelConfig model;
  bool tied = false;        // the output matrix is the token embedding
  bool qkv_bias = false;    // of Q, K and V
  bool other_bias = false;  // of the attention's output and the feed-forward matrices
  // Divisors of the rotary frequencies, [rotary_dim / 2] each; empty if the model has none.
  std::vector<float> rope_freqs;
  std::vector<float> rope_long;
  std::vector<float> rope_short;
};

// Reads `json` as Hugging Face's config.json of a model whose architecture Assay knows. Keys that
// do not affect the shape are ignored. Throws Error that names `where` and the key if one is
// missing, out of range, or asks for what Assay does not compute.
SynthConfig parse_config(const std::string& json, const std::string& where);

// A preset's config, or that in the file `name` if it ends in ".json".
SynthConfig load_config(const std::string& name);

// "tinyllama-1.1b, llama-3-8b, ..."
std::string preset_names();

}  // namespace assay
