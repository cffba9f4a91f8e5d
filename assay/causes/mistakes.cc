#include "assay/causes/mistakes.h"

#include <cmath>
#include <utility>

namespace assay::causes {
namespace {

// Changes of a product's result may have been made before its bias was added: then they are of the
// weights' rows alone.
void add_before_bias(const Network& network, std::vector<BoundMistake>& mistakes) {
  const size_t count = mistakes.size();
  for (size_t i = 0; i < count; ++i) {
    if (!mistakes[i].change) continue;
    BoundMistake before = mistakes[i];
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

// An op of several layers is tried once for all of them.
bool is_possible_somewhere(const Network& network, const Mistake& mistake, Op op) {
  bool possible = !mistake.possible || mistake.possible(network, op);
  for (int layer = 0; layer < network.n_layers && !possible; ++layer) {
    possible = mistake.possible(network, {op.checkpoint, layer});
  }
  return possible;
}

BoundMistake bind(const Network& network, const Mistake& mistake) {
  return {.name = mistake.cause,
          .text = [&](double parameter) { return mistake.text(network, parameter); },
          .change = {},
          .compute = [&](Op op, const Inputs& inputs, double parameter) -> Matrix {
            if (mistake.possible && !mistake.possible(network, op)) return {};
            return network.compute(op, inputs, mistake.edit, parameter);
          },
          .grid = mistake.grid ? mistake.grid(network) : std::vector<double>(),
          .refine = mistake.refine,
          .generic = mistake.generic};
}

}  // namespace

BoundMistake plain_mistake(std::string name, std::string text,
                           std::function<Matrix(Op op, const Inputs& inputs)> compute) {
  return {.name = std::move(name),
          .text = [text = std::move(text)](double) { return text; },
          .change = {},
          .compute = [compute = std::move(compute)](Op op, const Inputs& inputs,
                                                    double) { return compute(op, inputs); },
          .grid = {}};
}

BoundMistake output_mistake(const Network& network, std::string name,
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

std::vector<Checkpoint> family_of(Checkpoint checkpoint, const BoundMistake& mistake) {
  const OpKind kind = kind_of(checkpoint);
  const bool of_all = kind == OpKind::kLinear
                          ? mistake.name == "rounding" || mistake.name == "transpose"
                          : kind == OpKind::kRope || kind == OpKind::kNorm || kind == OpKind::kAdd;
  if (of_all) {
    std::vector<Checkpoint> all;
    for (int i = 0; i < kCheckpoints; ++i) {
      const auto each = static_cast<Checkpoint>(i);
      if (kind_of(each) == kind) all.push_back(each);
    }
    return all;
  }
  if (checkpoint == Checkpoint::kQ || checkpoint == Checkpoint::kK ||
      checkpoint == Checkpoint::kV) {
    if (mistake.name == "bias_missing") return {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV};
    if (mistake.name == "rope_pairing") return {Checkpoint::kQ, Checkpoint::kK};
  }
  return {checkpoint};
}

std::vector<BoundMistake> mistakes_of(const Network& network, Op op) {
  const Checkpoint checkpoint = op.checkpoint;
  std::vector<BoundMistake> mistakes;
  for (const Mistake& mistake : mistake_catalogue()) {
    if (!mistake.text || !concerns(mistake, checkpoint) || !network.can_compute(op)) continue;
    if (is_possible_somewhere(network, mistake, op)) mistakes.push_back(bind(network, mistake));
  }
  const OpKind kind = kind_of(checkpoint);
  switch (kind) {
    case OpKind::kEmbedding:
      add_embedding_mistakes(network, mistakes);
      break;
    case OpKind::kNorm:
      break;
    case OpKind::kLinear:
      add_linear_mistakes(network, mistakes);
      break;
    case OpKind::kRope:
      break;
    case OpKind::kAttention:
      break;
    case OpKind::kActivation:
      break;
    case OpKind::kAdd:
      break;
  }
  add_output_mistakes(network, checkpoint, mistakes);
  if (kind == OpKind::kLinear && network.model != nullptr) add_before_bias(network, mistakes);
  return mistakes;
}

}  // namespace assay::causes
