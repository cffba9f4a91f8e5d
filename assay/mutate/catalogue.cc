#include "assay/mutate/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace assay {
namespace {

using mistakes::Injected;
using mistakes::Mistake;

struct MatrixPlace {
  FaultPlace place;
  const WeightMatrix* matrix = nullptr;  // null: there is none
};

MatrixPlace find_in_layer(const Model& model, int layer, TensorType type) {
  const Layer& weights = model.layers[static_cast<size_t>(layer)];
  for (const OpSpec& op : model.config().layer(layer).ops) {
    const WeightMatrix& weight = weights.linear(op.out).weight;
    if (weight.data == nullptr || weight.type != type) continue;
    return {{.checkpoint = op.out, .layer = layer}, &weight};
  }
  return {};
}

// The first matrix of a type that is multiplied with: in `layer`, or in the first layer that has
// one, or the output matrix.
MatrixPlace find_matrix(const Model& model, int layer, TensorType type) {
  MatrixPlace found = find_in_layer(model, layer, type);
  for (int i = 0; found.matrix == nullptr && i < model.config().n_layers; ++i) {
    found = find_in_layer(model, i, type);
  }
  if (found.matrix == nullptr && model.output.weight.type == type) {
    found = {{.checkpoint = Checkpoint::kLogits}, &model.output.weight};
  }
  return found;
}

bool computes(const Model& model, Checkpoint checkpoint) {
  return !is_in_layer(checkpoint) || model.config().find(checkpoint) != nullptr;
}

// The ops whose calls the fault may edit.
std::vector<Checkpoint> checkpoints_of(const Injected& injected) {
  std::vector<Checkpoint> all = injected.also;
  all.insert(all.begin(), injected.at);
  return all;
}

// Whether any op of the network can have the fault.
bool can_be_made(const Mistake& mistake, const Injected& injected,
                 const mistakes::Network& network) {
  return std::ranges::any_of(checkpoints_of(injected), [&](Checkpoint checkpoint) {
    return !possible_ops(mistake, network, checkpoint).empty();
  });
}

mistakes::Network network_of(const Model& model) {
  mistakes::Network network = mistakes::Network::of_model(model, 1);
  network.n_prompt = 1;  // prompts go through it in one
  return network;
}

// Where a fault of the middle layer, or of all, is found: in the first op that can have it, or the
// first from that layer on.
FaultPlace find_place(const Mistake& mistake, const Injected& injected,
                      const mistakes::Network& network, int layer) {
  FaultPlace place{.checkpoint = injected.at, .layer = layer};
  for (const Checkpoint checkpoint : checkpoints_of(injected)) {
    const std::vector<mistakes::Op> ops = possible_ops(mistake, network, checkpoint);
    if (ops.empty()) continue;
    place.checkpoint = checkpoint;
    const auto after =
        std::ranges::find_if(ops, [&](mistakes::Op op) { return op.layer >= layer; });
    place.layer = std::max(after == ops.end() ? ops.back().layer : after->layer, 0);
    break;
  }
  return place;
}

Injection inject(const Mistake& mistake, const Injected& injected, bool in_one_layer,
                 const FaultSite& site) {
  const int edited_layer = injected.edit_model ? injected.edit_model(site.model) : 0;
  const auto network = std::make_shared<mistakes::Network>(network_of(site.model));
  Injection injection{
      .found_at = find_place(mistake, injected, *network, in_one_layer ? site.layer : 0),
      .hooks = hooks_of(mistake, injected.before_bias),
      .parameter = injected.parameter,
      .in_arguments = injected.in_arguments};
  if (injected.type) {
    injection.found_at = find_matrix(site.model, site.layer, *injected.type).place;
  } else if (injected.edit_model) {
    injection.found_at = {.checkpoint = injected.at, .layer = edited_layer};
  }
  std::vector<Checkpoint> checkpoints = checkpoints_of(injected);
  if (injected.type) checkpoints = {injection.found_at.checkpoint};
  injection.applies = [&mistake, &injected, network, checkpoints,
                       layer = injection.found_at.layer](const OpSite& call) {
    const mistakes::Op op{call.checkpoint, is_in_layer(call.checkpoint) ? call.layer : -1};
    return (call.layer == layer || injected.in_every_layer) &&
           std::ranges::find(checkpoints, call.checkpoint) != checkpoints.end() &&
           is_possible(mistake, *network, op);
  };
  return injection;
}

// A mistake of the catalogue, which the fault refers to.
Fault fault_of(const Mistake& mistake, const Injected& injected) {
  Fault fault{
      .name = injected.name,
      .group = injected.group,
      .what = injected.what,
      .cause = mistake.cause,
      .in_one_layer = injected.type || (is_in_layer(injected.at) && !injected.in_every_layer),
      .unsupported_reason = [&mistake, &injected](const Model& model) -> std::string {
        const std::string reason = injected.unsupported_reason(model);
        if (!reason.empty() || injected.edit_model) return reason;
        if (std::ranges::any_of(checkpoints_of(injected), [&](Checkpoint checkpoint) {
              return computes(model, checkpoint);
            })) {
          return can_be_made(mistake, injected, network_of(model))
                     ? ""
                     : "no op of it is computed in a way that can have it";
        }
        return "it has no " + std::string(checkpoint_op(injected.at));
      },
      .type = injected.type,
      .misread = injected.misread};
  if (const auto type = injected.type) {
    fault.unsupported_reason = [type](const Model& model) -> std::string {
      if (find_matrix(model, 0, *type).matrix != nullptr) return {};
      return fmt::format("no product of it has {}", tensor_type_info(*type).name);
    };
  }
  fault.inject = [&mistake, &injected, in_one_layer = fault.in_one_layer](const FaultSite& site) {
    return inject(mistake, injected, in_one_layer, site);
  };
  return fault;
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults = mutate::token_faults();
  for (const Mistake& mistake : mistakes::mistake_catalogue()) {
    for (const Injected& injected : mistake.faults) {
      faults.push_back(fault_of(mistake, injected));
    }
  }
  for (Fault& fault : mutate::sampling_faults()) faults.push_back(std::move(fault));
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.group, a.type) < std::tie(b.group, b.type);
  });
  return faults;
}

constexpr UnobservableFault kUnobservable[] = {
    {"an activation is +0 where it should be -0",
     "every op that reads it gives the same number. Of dequantised weights the sign of zero is "
     "held: the vectors are compared bit for bit"},
    {"softmax subtracts another number than the highest score",
     "it cancels in the division; where it does not, because exp() overflows, it is "
     "softmax-without-max"},
    {"tied embeddings are read as an output matrix of their own", "it is the same matrix"},
    {"query heads are mapped to kv heads by modulo, with one kv head or as many as query heads",
     "both maps are the same; gqa-modulo is tried where they are not"},
    {"long rotary factors for short ones where the two are equal", "it is the same table"},
    {"all positions are shifted alike, seen in logs of layers or logits",
     "rotary attention knows differences of positions only. Logs with every op catch it, as "
     "rope-position-off-by-one"},
};

// Letters to insert, delete or change to make one of the other (Levenshtein 1966).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string FaultPlace::name() const {
  switch (kind) {
    case Kind::kCheckpoint:
      return checkpoint_name(checkpoint, layer);
    case Kind::kPromptTokens:
      return "prompt tokens";
    case Kind::kGeneratedTokens:
      return "generated tokens";
  }
  return {};
}

const std::vector<Fault>& fault_catalogue() {
  static const std::vector<Fault> faults = all_faults();
  return faults;
}

std::span<const UnobservableFault> unobservable_faults() {
  return kUnobservable;
}

const Fault& find_fault(const std::string& name) {
  const std::vector<Fault>& faults = fault_catalogue();
  if (const auto found = std::ranges::find(faults, name, &Fault::name); found != faults.end()) {
    return *found;
  }
  const auto distance = [&](const Fault& fault) { return edit_distance(fault.name, name); };
  const auto nearest =
      std::min_element(faults.begin(), faults.end(),
                       [&](const Fault& a, const Fault& b) { return distance(a) < distance(b); });
  throw Error(fmt::format("there is no fault '{}'", name), "--fault",
              fmt::format("'{}' is the nearest; assay mutate --list has all", nearest->name));
}

}  // namespace assay
