#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "engine/model_config.h"
#include "kernels/kernels.h"

namespace assay {

// out = w · x + bias; `bias` is null or has one element a row. Of experts: the rows of each expert,
// one after the other.
struct Linear {
  WeightMatrix weight;
  const float* bias = nullptr;
  // Of experts whose tensor has the rows of two products of each expert: the first row of this
  // one, and how many. 0: all.
  int64_t first = 0;
  int64_t count = 0;

  // These of experts, of which there are `n_experts`; a network without any has one.
  int64_t stride(int64_t n_experts) const { return weight.rows / n_experts; }
  int64_t rows_of_expert(int64_t n_experts) const { return count > 0 ? count : stride(n_experts); }
  WeightMatrix expert(int64_t number, int64_t n_experts) const {
    return weight.slice(number * stride(n_experts) + first, rows_of_expert(n_experts));
  }
  const float* bias_of_expert(int64_t number, int64_t n_experts) const {
    return bias == nullptr ? nullptr : bias + number * stride(n_experts);
  }
};

struct Norm {
  const float* weight = nullptr;  // [weight_width]; of a norm without, all 1
  const float* bias = nullptr;    // [weight_width], LayerNorm only
};

// Numbers that an op has beside products and norms; null: none.
struct Extra {
  const float* sinks = nullptr;          // [n_heads] of kAttention
  const float* choice_bias = nullptr;    // [n_experts] of kSelect; these two always on the host
  const float* expert_scales = nullptr;  // [n_experts] of kWeigh
  const float* conv = nullptr;           // [width, conv_taps] of kConv
  const float* conv_bias = nullptr;      // [width] of kConv
  const float* decay = nullptr;          // [n_decays()] of has_state(): DeltaCall::a
  const float* dt = nullptr;             // [n_value_heads] of has_state()
  const float* skip = nullptr;           // [n_value_heads] of kSsm: SsmCall::d
  float scale = 1.0F;                    // of kOutput, which is multiplied by it
  const float* first_stream = nullptr;   // [embedding_length] of a kStreams: StreamsCall::weight
};

// The weights of a layer's ops, by the checkpoint that each computes. Those of other ops are empty.
class Layer {
 public:
  Linear& linear(Checkpoint out) { return linears_[static_cast<size_t>(out)]; }
  const Linear& linear(Checkpoint out) const { return linears_[static_cast<size_t>(out)]; }
  Norm& norm(Checkpoint out) { return norms_[static_cast<size_t>(out)]; }
  const Norm& norm(Checkpoint out) const { return norms_[static_cast<size_t>(out)]; }
  Extra extra;

 private:
  std::array<Linear, kCheckpoints> linears_;
  std::array<Norm, kCheckpoints> norms_;
};

// Where all weights of a model are; the function that returns them names the owner of that memory.
struct Weights {
  WeightMatrix token_embedding;     // [n_vocab, embedding_length]
  WeightMatrix position_embedding;  // [positions, embedding_length]; learned positions only
  // [n_vocab or fewer, n_layers * ple_length]; where layers have their own
  WeightMatrix ple_embedding;
  std::vector<Layer> layers;
  Norm embedding_norm;  // without weights where embeddings are not normalised
  Norm output_norm;
  Linear output;  // [n_vocab, embedding_length]; the token embedding if tied

  // Whether some tokens have no row of their own in ple_embedding.
  bool lacks_ple_rows() const { return ple_embedding.rows < token_embedding.rows; }
  std::vector<int32_t> ple_rows(std::span<const int32_t> tokens) const {
    std::vector<int32_t> rows(tokens.begin(), tokens.end());
    for (int32_t& row : rows) row = row < ple_embedding.rows ? row : 0;
    return rows;
  }
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
  std::deque<std::vector<float>> floats_;    // what norms and biases point to
  std::deque<std::vector<std::byte>> made_;  // matrices that the file has in parts
};

}  // namespace assay
