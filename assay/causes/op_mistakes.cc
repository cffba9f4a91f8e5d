#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/causes/mistakes.h"
#include "base/interrupt.h"
#include "kernels/reference/dequantize.h"

namespace assay::causes {
namespace {

constexpr int64_t kMaxWeights = int64_t{1} << 26;  // of a matrix that is turned around

// x times the matrix whose numbers are those of `linear`, read as [columns, rows].
Matrix multiply_transposed(const Linear& linear, const Matrix& x) {
  const WeightMatrix& w = linear.weight;
  std::vector<float> flat(static_cast<size_t>(w.rows * w.columns));
  for (int64_t r = 0; r < w.rows; ++r) {
    dequantize_row(w.type, w.slice(r, 1).data, w.columns, flat.data() + r * w.columns);
  }
  Matrix out(x.rows, w.rows);
  std::vector<double> sums(static_cast<size_t>(w.rows));
  for (int64_t t = 0; t < x.rows; ++t) {
    check_interrupted();
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t c = 0; c < w.columns; ++c) {
      const double value = x.row(t)[c];
      for (int64_t r = 0; r < w.rows; ++r) {
        sums[static_cast<size_t>(r)] += value * flat[static_cast<size_t>(c * w.rows + r)];
      }
    }
    for (int64_t r = 0; r < w.rows; ++r) {
      const double bias = linear.bias != nullptr ? linear.bias[r] : 0.0;
      out.row(t)[r] = static_cast<float>(sums[static_cast<size_t>(r)] + bias);
    }
  }
  return out;
}

}  // namespace

void add_linear_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  if (network.model == nullptr) return;
  add_block_mistakes(network, mistakes);
  mistakes.push_back(plain_mistake("bias_missing", "leaves the bias out",
                                   [&network](Op op, const Inputs& in) -> Matrix {
                                     Linear linear = *network.linear(op);
                                     if (linear.bias == nullptr) return {};
                                     linear.bias = nullptr;
                                     return network.multiply(linear, *in.rows[0]);
                                   }));
  mistakes.push_back(plain_mistake("transpose", "multiplies by the transposed weights",
                                   [&network](Op op, const Inputs& in) -> Matrix {
                                     const Linear& linear = *network.linear(op);
                                     if (linear.weight.rows * linear.weight.columns > kMaxWeights)
                                       return {};
                                     return multiply_transposed(linear, *in.rows[0]);
                                   }));
}

void add_embedding_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  if (network.model == nullptr) return;
  BoundMistake row;
  row.name = "row_shift";
  row.text = [](double by) { return fmt::format("looks up the row of token id {:+.0f}", by); };
  row.grid = {-3, -2, -1, 1, 2, 3};
  row.compute = [&network](Op, const Inputs& in, double by) {
    std::vector<int32_t> tokens = in.tokens;
    const int64_t rows = network.model->token_embedding.rows;
    for (int32_t& token : tokens) {
      const int64_t shifted = (token + static_cast<int64_t>(by)) % rows;
      token = static_cast<int32_t>((shifted + rows) % rows);
    }
    return network.look_up(tokens, in.positions);
  };
  mistakes.push_back(std::move(row));
}

}  // namespace assay::causes
