#include "assay/causes/mistakes.h"

#include <cmath>
#include <utility>

namespace assay::causes {
namespace {

// Changes of a product's result may have been made before its bias was added: then they are of the
// weights' rows alone.
void add_before_bias(const Network& network, std::vector<Mistake>& mistakes) {
  const size_t count = mistakes.size();
  for (size_t i = 0; i < count; ++i) {
    if (!mistakes[i].change) continue;
    Mistake before = mistakes[i];
    before.text = [text = before.text](double parameter) {
      return text(parameter) + " before the bias";
    };
    before.compute = [&network, change = before.change](Op op, const Inputs& inputs,
                                                        double parameter) -> Matrix {
      const Linear& linear = *network.linear(op);
      if (linear.bias == nullptr) return {};
      Matrix out = change(network.multiply({linear.weight, nullptr}, *inputs.rows[0]), parameter);
      for (int64_t t = 0; t < out.rows; ++t) {
        for (int64_t r = 0; r < out.columns; ++r) out.row(t)[r] += linear.bias[r];
      }
      return out;
    };
    mistakes.push_back(std::move(before));
  }
}

}  // namespace

Mistake plain_mistake(std::string name, std::string text,
                      std::function<Matrix(Op op, const Inputs& inputs)> compute) {
  return {.name = std::move(name),
          .text = [text = std::move(text)](double) { return text; },
          .change = {},
          .compute = [compute = std::move(compute)](Op op, const Inputs& inputs,
                                                    double) { return compute(op, inputs); },
          .grid = {}};
}

Mistake output_mistake(const Network& network, std::string name,
                       std::function<std::string(double)> text, std::vector<double> grid,
                       bool refine, Change change) {
  return {
      .name = std::move(name),
      .text = std::move(text),
      .change = change,
      .compute = [&network, change = std::move(change)](
                     Op op, const Inputs& inputs,
                     double parameter) { return change(network.compute(op, inputs), parameter); },
      .grid = std::move(grid),
      .refine = refine,
      .generic = true};
}

std::vector<double> ratios(double low, double high, int count) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values.push_back(low * std::pow(high / low, i / (count - 1.0)));
  return values;
}

std::vector<Checkpoint> family_of(Checkpoint kind, const Mistake& mistake) {
  if (is_linear(kind) && (mistake.name == "rounding" || mistake.name == "transpose")) {
    return {Checkpoint::kQ,       Checkpoint::kK,     Checkpoint::kV,      Checkpoint::kAttnOut,
            Checkpoint::kFfnGate, Checkpoint::kFfnUp, Checkpoint::kFfnOut, Checkpoint::kLogits};
  }
  if (kind == Checkpoint::kQRope || kind == Checkpoint::kKRope) {
    return {Checkpoint::kQRope, Checkpoint::kKRope};
  }
  if (is_norm(kind)) {
    return {Checkpoint::kAttnNorm, Checkpoint::kFfnNorm, Checkpoint::kFinalNorm};
  }
  if (kind == Checkpoint::kAttnResidual || kind == Checkpoint::kOutput) {
    return {Checkpoint::kAttnResidual, Checkpoint::kOutput};
  }
  if (kind == Checkpoint::kQ || kind == Checkpoint::kK || kind == Checkpoint::kV) {
    if (mistake.name == "bias_missing") return {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV};
    if (mistake.name == "rope_pairing") return {Checkpoint::kQ, Checkpoint::kK};
  }
  return {kind};
}

std::vector<Mistake> mistakes_of(const Network& network, Checkpoint kind) {
  std::vector<Mistake> mistakes;
  switch (kind) {
    case Checkpoint::kQRope:
    case Checkpoint::kKRope:
      add_rope_mistakes(network, mistakes);
      break;
    case Checkpoint::kAttn:
      add_attention_mistakes(network, mistakes);
      break;
    case Checkpoint::kAttnResidual:
    case Checkpoint::kOutput:
      add_residual_mistakes(mistakes);
      break;
    case Checkpoint::kFfnAct:
      add_ffn_mistakes(network, mistakes);
      break;
    case Checkpoint::kEmbedding:
      add_embedding_mistakes(network, mistakes);
      break;
    default:
      if (is_norm(kind)) add_norm_mistakes(network, mistakes);
      if (is_linear(kind)) add_linear_mistakes(network, kind, mistakes);
      break;
  }
  add_output_mistakes(network, kind, mistakes);
  if (is_linear(kind) && network.model != nullptr) add_before_bias(network, mistakes);
  return mistakes;
}

}  // namespace assay::causes
