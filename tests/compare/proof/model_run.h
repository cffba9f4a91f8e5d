#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/compare/proof/chance.h"

namespace assay::proof {

// A network that computes nothing, but whose tensors look and depend on each other as those of a
// real one do: each is drawn from the network, its name and the tokens up to its own.
struct Network {
  uint64_t seed = 0;
  int n_layers = 2;
  int hidden = 32;
  int kv_dim = 16;
  int ffn = 48;
  int vocabulary = 100;  // with padding
  int padding = 0;       // rows of logits beyond the vocabulary
  float pad_value = 0;
  double shared = 0;    // of each tensor, what it has in common at all tokens
  double spread = 1;    // decades of scale between the checkpoints
  int zero_one_in = 0;  // of the elements; 0: none
  int massive = -1;     // index of a massive activation of the residual stream, -1: none
  double massiveness = 0;
};

Network make_network(Chance& chance);

// All checkpoints of it, as the network computes.
std::vector<std::string> checkpoint_names(const Network& network);

// The tensor of one checkpoint at one token.
struct Tensor {
  std::string checkpoint;
  int64_t token = 0;
  std::vector<float> values;
  std::vector<float> garbage;  // what a log has instead of the first values
};

struct Run {
  std::vector<int64_t> tokens;
  int64_t n_prompt = 0;
  std::vector<Tensor> tensors;  // by token, as the network computes

  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  Tensor* find(const std::string& checkpoint, int64_t token);
  const Tensor* find(const std::string& checkpoint, int64_t token) const;
};

// Two tokens that are level at `token`: the logits of the second are `gap` of their root mean
// square below. The one that is chosen is the first, or else the second.
struct Tie {
  int64_t token = 0;
  bool second = false;
  double gap = 0;
};

// The checkpoints `names` at each of `total` tokens, of which the first are the prompt and the
// others follow from the logits.
Run evaluate(const Network& network, const std::vector<std::string>& names,
             std::vector<int64_t> prompt, int64_t total, const std::optional<Tie>& tie);

// The elements of a tensor that are no padding.
int64_t active_elements(const Network& network, const Tensor& tensor);

// The root mean square of the first `count` values.
double rms(const std::vector<float>& values, int64_t count);

// The index of the largest value; of equal ones the lowest.
int64_t argmax(const std::vector<float>& values);

}  // namespace assay::proof
