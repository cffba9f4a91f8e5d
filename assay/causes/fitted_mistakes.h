#pragma once

#include <string>
#include <vector>

#include "assay/causes/evidence.h"
#include "assay/mistakes/network.h"
#include "kernels/kernels.h"

namespace assay::causes {

// A mistake whose numbers are taken from the difference itself.
struct Fitted {
  std::string name;
  std::string text;
  int64_t parameters = 0;
  int64_t numbers = 0;                        // how many of the difference it is about; 0: all
  std::vector<std::vector<double>> features;  // what it predicts, for each of Evidence::tokens()
};

// No constant of a network is wrong by so little: that a tensor seems multiplied by such a factor
// is what a small error before it leaves.
bool is_nearly_one(double factor);

// Whether at least `count` of the rows differ from each other. What is the same at every token of a
// prompt that repeats one is seen once, not at many tokens.
bool has_distinct_rows(const std::vector<std::vector<double>>& rows, size_t count);

// `right`: what the tensor should be, in features of `evidence`. Linear in the tensor, so that
// sketches will do: a factor, the opposite sign, a constant vector, another token's result. A
// constant is offered only where a factor for each element would leave far more.
std::vector<Fitted> fit_linear(const Evidence& evidence,
                               const std::vector<std::vector<double>>& right);

// With all values: heads in another order. `head_dim` may be 0 where it is not known.
std::vector<Fitted> fit_orders(const Evidence& evidence,
                               const std::vector<std::vector<double>>& right, int64_t head_dim);

// With all values, of a product of `weight` with `inputs` (a row for each of `positions`): a few
// rows of it are off, each by one block of the weights, by one weight, or by a factor.
std::vector<Fitted> fit_blocks(const Evidence& evidence,
                               const std::vector<std::vector<double>>& right,
                               const WeightMatrix& weight, const Matrix& inputs,
                               const std::vector<int64_t>& positions);

// Of the embedding of a model: a few tokens of the prompt are taken for others.
std::vector<Fitted> fit_tokens(const mistakes::Network& network, const Evidence& evidence,
                               const std::vector<std::vector<double>>& right,
                               const std::vector<int64_t>& prompt);

}  // namespace assay::causes
