#include "assay/causes/mistakes.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::causes {
namespace {

using mistakes::KernelHooks;
using mistakes::Mistake;

BoundMistake bind(const Network& network, const Mistake& mistake) {
  BoundMistake bound{.name = mistake.cause,
                     .text = [&](double parameter) { return mistake.text(network, parameter); },
                     .text_of_layer = mistake.text_of_layer,
                     .change = {},
                     .compute = [&](Op op, const Inputs& inputs, double parameter) -> Matrix {
                       if (!is_possible(mistake, network, op)) return {};
                       return network.compute(op, inputs, mistake.edit, parameter);
                     },
                     .possible = [&](Op op) { return is_possible(mistake, network, op); },
                     .grid = mistake.grid ? mistake.grid(network) : std::vector<double>(),
                     .refine = mistake.refine,
                     .generic = mistake.generic,
                     .together = mistake.together,
                     .of_all_layers = mistake.of_all_layers,
                     .reads_all_positions = mistake.reads_all_positions,
                     .reads_ahead = mistake.reads_ahead};
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
  bound.possible = [&network](Op op) {
    const Linear* linear = network.linear(op);
    return linear != nullptr && linear->bias != nullptr;
  };
  bound.compute = [&network, possible = bound.possible, hooks = hooks_of(mistake, true)](
                      Op op, const Inputs& inputs, double parameter) -> Matrix {
    return possible(op) ? network.compute(op, inputs, hooks, parameter) : Matrix();
  };
  return bound;
}

using Kinds = std::vector<Checkpoint>;

Kinds kinds_with(const std::function<bool(OpKind)>& wanted) {
  Kinds found;
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto each = static_cast<Checkpoint>(i);
    if (wanted(kind_of(each))) found.push_back(each);
  }
  return found;
}

bool is_product(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kExpertLinear;
}

// Of an attention, a feed-forward, what ranks sum, all products, all norms, and all there are.
std::vector<Kinds> families_of_biases() {
  const auto is_norm = [](OpKind kind) { return kind == OpKind::kNorm; };
  return {
      {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV},
      {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV, Checkpoint::kAttnOut},
      {Checkpoint::kFfnGate, Checkpoint::kFfnUp, Checkpoint::kExpertOut, Checkpoint::kSharedGate,
       Checkpoint::kSharedUp, Checkpoint::kSharedOut, Checkpoint::kFfnOut},
      {Checkpoint::kAttnOut, Checkpoint::kExpertOut, Checkpoint::kSharedOut, Checkpoint::kFfnOut},
      kinds_with(is_product),
      {Checkpoint::kAttnNorm, Checkpoint::kFfnNorm},
      kinds_with(is_norm),
      kinds_with([&](OpKind kind) { return is_product(kind) || is_norm(kind); })};
}

// All products, with the embedding, and with the norms too.
std::vector<Kinds> families_of_weights() {
  const auto is_table = [](OpKind kind) { return kind == OpKind::kEmbedding; };
  const auto is_norm = [](OpKind kind) { return kind == OpKind::kNorm; };
  return {
      kinds_with(is_product),
      kinds_with([&](OpKind kind) { return is_product(kind) || is_table(kind); }),
      kinds_with([&](OpKind kind) { return is_product(kind) || is_norm(kind); }),
      kinds_with([&](OpKind kind) { return is_product(kind) || is_table(kind) || is_norm(kind); })};
}

}  // namespace

std::vector<Kinds> families_of(Checkpoint checkpoint, const BoundMistake& mistake) {
  const OpKind kind = kind_of(checkpoint);
  const std::string& name = mistake.name;
  if (name == "bias_missing") return families_of_biases();
  if (name == "rounding" && mistake.together) return families_of_weights();
  if (name == "layer_order") return {kinds_with([](OpKind) { return true; })};
  if (name == "multipliers") {
    return {{Checkpoint::kEmbedding, Checkpoint::kAttn, Checkpoint::kAttnResidual,
             Checkpoint::kFfnResidual, Checkpoint::kOutput, Checkpoint::kLogits}};
  }
  if (name == "fused_order") {
    return {{Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV},
            {Checkpoint::kFfnGate, Checkpoint::kFfnUp},
            {Checkpoint::kSsmX, Checkpoint::kLinearZ, Checkpoint::kSsmXbc},
            {Checkpoint::kSsmDtIn, Checkpoint::kSsmB, Checkpoint::kSsmC}};
  }
  if (name == "clip") return {{Checkpoint::kQClip, Checkpoint::kKClip, Checkpoint::kVClip}};
  if (name == "ssm" && kind == OpKind::kLinear) return {{Checkpoint::kSsmB, Checkpoint::kSsmC}};
  if (name == "kv_swapped") return {{Checkpoint::kK, Checkpoint::kV}};
  if (name == "parallel_residual" && kind == OpKind::kLinear) {
    return {{Checkpoint::kFfnGate, Checkpoint::kFfnUp}};
  }
  if (name == "gate_up_swapped" && kind == OpKind::kLinear) {
    const bool of_conv = checkpoint == Checkpoint::kConvB || checkpoint == Checkpoint::kConvC ||
                         checkpoint == Checkpoint::kConvX;
    if (of_conv) return {{Checkpoint::kConvB, Checkpoint::kConvC, Checkpoint::kConvX}};
    return {{Checkpoint::kFfnGate, Checkpoint::kFfnUp}};
  }
  if (name == "rope_pairing" && kind == OpKind::kLinear) return {{Checkpoint::kQ, Checkpoint::kK}};
  if (name == "router_weights" && checkpoint == Checkpoint::kExperts) {
    return {{Checkpoint::kExperts, Checkpoint::kExpertWeights}};
  }
  if (name == "router_weights" && checkpoint != Checkpoint::kExpertWeights) {
    return {{Checkpoint::kExpertIn, Checkpoint::kFfnGate, Checkpoint::kFfnUp,
             Checkpoint::kRoutedOut, Checkpoint::kFfnOut}};
  }
  if (name == "expert_order" && kind == OpKind::kExpertLinear) {
    return {{Checkpoint::kFfnGate, Checkpoint::kFfnUp, Checkpoint::kExpertOut}};
  }
  std::vector<Kinds> families;
  if (name == "norm_order") {
    families = {{Checkpoint::kFfnAct, Checkpoint::kFfnSubNorm},
                {Checkpoint::kAttnSubNorm, Checkpoint::kAttnOut}};
  }
  if (name == "rope_scaling" || name == "rope_unwanted") {
    families = {{Checkpoint::kQRope, Checkpoint::kKRope, Checkpoint::kAttn}};
  }
  const bool of_all = kind == OpKind::kLinear
                          ? name == "rounding" || name == "transpose"
                          : kind == OpKind::kRope || kind == OpKind::kNorm ||
                                kind == OpKind::kAdd || kind == OpKind::kActivation;
  // The weights of another norm are those of one.
  const bool of_one = name == "norm_order" && !mistake.grid.empty();
  if (kind == OpKind::kNorm && !of_one) {
    families.push_back({Checkpoint::kQNorm, Checkpoint::kKNorm});
    families.push_back({Checkpoint::kQRopeNorm, Checkpoint::kKRopeNorm});
    families.push_back({Checkpoint::kSsmDtNorm, Checkpoint::kSsmBNorm, Checkpoint::kSsmCNorm});
    families.push_back({Checkpoint::kAttnSubNorm, Checkpoint::kFfnSubNorm});
    families.push_back({Checkpoint::kQANorm, Checkpoint::kKvANorm});
    families.push_back({Checkpoint::kPostAttnNorm, Checkpoint::kPostFfnNorm});
    families.push_back({Checkpoint::kAttnNorm, Checkpoint::kFfnNorm});
    families.push_back({Checkpoint::kAttnNorm, Checkpoint::kFfnNorm, Checkpoint::kFinalNorm});
    Kinds of_layers = kinds_with([](OpKind each) { return each == OpKind::kNorm; });
    std::erase(of_layers, Checkpoint::kFinalNorm);
    families.push_back(std::move(of_layers));
  }
  if (of_all && !of_one)
    families.push_back(kinds_with([kind](OpKind each) { return each == kind; }));
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
    // No value of its parameter fits the network, as no number of ranks shares two heads.
    if (mistake.grid && mistake.grid(network).empty()) continue;
    all.push_back(bind(network, mistake));
    if (mistake.change && network.linear(op) != nullptr) {
      before_bias.push_back(bind_before_bias(network, mistake));
    }
  }
  for (BoundMistake& mistake : before_bias) all.push_back(std::move(mistake));
  return all;
}

}  // namespace assay::causes
