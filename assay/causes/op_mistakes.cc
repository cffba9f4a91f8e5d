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

void add_ffn_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  if (!network.activation) return;
  for (const Activation other : kActivations) {
    if (other == *network.activation) continue;
    mistakes.push_back(
        plain_mistake("activation_kind",
                      fmt::format("applies {} in place of {}", activation_name(other),
                                  activation_name(*network.activation)),
                      [&network, other](Op, const Inputs& in) {
                        return activate(network.gated() ? in.rows[1] : nullptr, *in.rows[0], other);
                      }));
  }
  if (!network.gated()) return;
  mistakes.push_back(plain_mistake("gate_up_swapped", "activates up and multiplies by gate",
                                   [&network](Op, const Inputs& in) {
                                     return activate(in.rows[0], *in.rows[1], *network.activation);
                                   }));
}

void add_residual_mistakes(std::vector<BoundMistake>& mistakes) {
  BoundMistake branch;
  branch.name = "residual";
  branch.text = [](double by) {
    return by == 0 ? std::string("does not add the block's output to the residual stream")
                   : fmt::format("adds {:.4g} times the block's output to the residual stream", by);
  };
  branch.grid = {-2, -1, -0.5, 0, 0.25, 0.5, 2, 4};
  branch.refine = true;
  branch.compute = [](Op, const Inputs& in, double by) {
    const auto f = static_cast<float>(by);
    return add(*in.rows[0], map(*in.rows[1], [f](float x) { return f * x; }));
  };
  mistakes.push_back(std::move(branch));

  BoundMistake stream;
  stream.name = "residual";
  stream.text = [](double by) {
    return by == 0 ? std::string("leaves the residual stream out")
                   : fmt::format("adds {:.4g} times the residual stream", by);
  };
  stream.grid = {-2, -1, -0.5, 0, 0.25, 0.5, 2, 4};
  stream.refine = true;
  stream.compute = [](Op, const Inputs& in, double by) {
    const auto f = static_cast<float>(by);
    return add(map(*in.rows[0], [f](float x) { return f * x; }), *in.rows[1]);
  };
  mistakes.push_back(std::move(stream));

  // What else may be taken for the stream.
  struct Other {
    Checkpoint of;
    Checkpoint at;
    const char* text;
  };
  for (const Other other :
       {Other{Checkpoint::kAttnNorm, Checkpoint::kAttnResidual, "adds to the normalised stream"},
        Other{Checkpoint::kFfnNorm, Checkpoint::kOutput, "adds to the normalised stream"},
        Other{Checkpoint::kAttnOut, Checkpoint::kOutput, "adds to the attention's output alone"}}) {
    mistakes.push_back(
        plain_mistake("residual", other.text, [other](Op op, const Inputs& in) -> Matrix {
          if (op.checkpoint != other.at) return {};
          const auto rows = in.other(Op{other.of, op.layer});
          return rows ? add(*rows, *in.rows[1]) : Matrix();
        }));
  }
  mistakes.push_back(
      plain_mistake("residual", "adds to the layer's input in place of the attention's residual",
                    [](Op op, const Inputs& in) -> Matrix {
                      if (op.checkpoint != Checkpoint::kOutput) return {};
                      const Op before = op.layer == 0 ? Op{Checkpoint::kEmbedding, -1}
                                                      : Op{Checkpoint::kOutput, op.layer - 1};
                      const auto rows = in.other(before);
                      return rows ? add(*rows, *in.rows[1]) : Matrix();
                    }));
}

void add_linear_mistakes(const Network& network, Checkpoint kind,
                         std::vector<BoundMistake>& mistakes) {
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
  if (kind == Checkpoint::kFfnGate || kind == Checkpoint::kFfnUp) {
    const bool gate = kind == Checkpoint::kFfnGate;
    if (!network.gated()) return;
    mistakes.push_back(plain_mistake(
        "gate_up_swapped", "computes gate with the weights of up, and up with those of gate",
        [&network, gate](Op op, const Inputs& in) {
          const Op other{gate ? Checkpoint::kFfnUp : Checkpoint::kFfnGate, op.layer};
          return network.multiply(*network.linear(other), *in.rows[0]);
        }));
  }
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
