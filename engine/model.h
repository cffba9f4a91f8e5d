#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "engine/model_config.h"
#include "kernels/kernels.h"

namespace assay {

// out = w · x + bias; `bias` is null or has one element a row.
struct Linear {
  WeightMatrix weight;
  const float* bias = nullptr;
};

struct Norm {
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width], LayerNorm only
};

struct Layer {
  Norm attn_norm;
  Linear q;         // [n_heads * head_dim, embedding_length]
  Linear k;         // [n_kv_heads * head_dim, embedding_length]
  Linear v;         // [n_kv_heads * head_dim, embedding_length]
  Linear attn_out;  // [embedding_length, n_heads * head_dim]
  Norm ffn_norm;
  Linear ffn_gate;  // [feed_forward_length, embedding_length]; gated kinds only
  Linear ffn_up;    // [feed_forward_length, embedding_length]
  Linear ffn_down;  // [embedding_length, feed_forward_length]
};

// Where all weights of a model are; who owns that memory is said where they come from.
struct Weights {
  WeightMatrix token_embedding;     // [n_vocab, embedding_length]
  WeightMatrix position_embedding;  // [positions, embedding_length]; learned positions only
  std::vector<Layer> layers;
  Norm output_norm;
  WeightMatrix output;  // [n_vocab, embedding_length]; the token embedding if tied
};

// A model's weights, bound to the mapped file and checked against its hyperparameters. Matrices
// stay in the file as they are stored; norms, biases and factors are copied out as float.
class Model : public Weights {
 public:
  // Throws Error that names the tensor if one is missing, has another shape than the
  // hyperparameters say, or is not known for this architecture.
  explicit Model(std::shared_ptr<const Gguf> gguf);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Gguf& gguf() const { return *gguf_; }
  const ModelConfig& config() const { return config_; }
  // To edit before a Session is made; `assay mutate` puts faults into models so.
  ModelConfig& config() { return config_; }

  // [rotary_dim / 2] divisors of the rotary frequencies; empty: all 1.
  std::vector<float> rope_factors_short;
  std::vector<float> rope_factors_long;

 private:
  std::shared_ptr<const Gguf> gguf_;
  ModelConfig config_;
  std::deque<std::vector<float>> floats_;  // what norms and biases point to
};

}  // namespace assay
