#include "assay/causes/mistakes.h"

#include <utility>

#include "assay/mistakes/mistake.h"

namespace assay::causes {
namespace {

using mistakes::KernelHooks;
using mistakes::Mistake;

BoundMistake bind(const Network& network, const Mistake& mistake) {
  BoundMistake bound{.name = mistake.cause,
                     .text = [&](double parameter) { return mistake.text(network, parameter); },
                     .change = {},
                     .compute = [&](Op op, const Inputs& inputs, double parameter) -> Matrix {
                       if (!is_possible(mistake, network, op)) return {};
                       return network.compute(op, inputs, mistake.edit, parameter);
                     },
                     .grid = mistake.grid ? mistake.grid(network) : std::vector<double>(),
                     .refine = mistake.refine,
                     .generic = mistake.generic};
  if (mistake.change) {
    bound.change = [&](const Matrix& right, double parameter) {
      return mistake.change(network, right, parameter);
    };
    bound.compute = [&](Op op, const Inputs& inputs, double parameter) -> Matrix {
      if (!is_possible(mistake, network, op)) return {};
      return mistake.change(network, network.compute(op, inputs), parameter);
    };
  }
  return bound;
}

// A change of a product's result may have been made before its bias was added: then it is of the
// weights' rows alone.
BoundMistake bind_before_bias(const Network& network, const Mistake& mistake) {
  BoundMistake bound = bind(network, mistake);
  bound.text = [text = bound.text](double parameter) {
    return text(parameter) + " before the bias";
  };
  bound.compute = [&network, hooks = hooks_of(mistake, true)](Op op, const Inputs& inputs,
                                                              double parameter) -> Matrix {
    const Linear* linear = network.linear(op);
    if (linear == nullptr || linear->bias == nullptr) return {};
    return network.compute(op, inputs, hooks, parameter);
  };
  return bound;
}

}  // namespace

std::vector<std::vector<Checkpoint>> families_of(Checkpoint checkpoint,
                                                 const BoundMistake& mistake) {
  const OpKind kind = kind_of(checkpoint);
  if (mistake.name == "parallel_residual" && kind == OpKind::kLinear) {
    return {{Checkpoint::kFfnGate, Checkpoint::kFfnUp}};
  }
  if (mistake.name == "qk_norm") return {{Checkpoint::kQNorm, Checkpoint::kKNorm}};
  std::vector<std::vector<Checkpoint>> families;
  const bool of_q_k_v =
      checkpoint == Checkpoint::kQ || checkpoint == Checkpoint::kK || checkpoint == Checkpoint::kV;
  if (of_q_k_v && mistake.name == "rope_pairing") return {{Checkpoint::kQ, Checkpoint::kK}};
  if (of_q_k_v && mistake.name == "bias_missing") {
    families = {{Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV},
                {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV, Checkpoint::kAttnOut}};
  }
  const bool of_all = kind == OpKind::kLinear
                          ? mistake.name == "rounding" || mistake.name == "transpose" ||
                                mistake.name == "bias_missing"
                          : kind == OpKind::kRope || kind == OpKind::kNorm ||
                                kind == OpKind::kAdd || kind == OpKind::kActivation;
  if (!of_all) return families;
  families.emplace_back();
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto each = static_cast<Checkpoint>(i);
    if (kind_of(each) == kind) families.back().push_back(each);
  }
  return families;
}

std::vector<BoundMistake> mistakes_of(const Network& network, Op op) {
  std::vector<BoundMistake> all;
  std::vector<BoundMistake> before_bias;
  for (const Mistake& mistake : mistakes::mistake_catalogue()) {
    const bool tried = mistake.text && (mistake.change || network.can_compute(op));
    // An op of several layers is tried once for all of them.
    if (!tried || (!is_possible(mistake, network, op) &&
                   possible_ops(mistake, network, op.checkpoint).empty())) {
      continue;
    }
    all.push_back(bind(network, mistake));
    if (mistake.change && network.linear(op) != nullptr) {
      before_bias.push_back(bind_before_bias(network, mistake));
    }
  }
  for (BoundMistake& mistake : before_bias) all.push_back(std::move(mistake));
  return all;
}

}  // namespace assay::causes
