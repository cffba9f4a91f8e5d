#include <set>
#include <utility>

#include "assay/causes/search.h"

// What a search tries, and in which order.
namespace assay::causes {
namespace {

// What layers of one network may have or not: an engine can be wrong about those alone.
struct Trait {
  bool (*has)(const Network& network, int layer);
  std::string_view with;
  std::string_view without;
};
constexpr Trait kTraits[] = {
    {[](const Network& network, int layer) {
       return find_spec(network.layer(layer), Checkpoint::kRouter) != nullptr;
     },
     "with experts", "without experts"},
    {[](const Network& network, int layer) {
       return network.model != nullptr && network.model->config().layer(layer).window > 0;
     },
     "with a window", "without a window"}};

}  // namespace

// The mistakes of each op of the chain, those of its own kind before those that any op may have. An
// op of several layers in the chain is tried in all of them, as an engine calls one function for
// each, then in those that differ from others in what they have, and after that in single ones.
std::vector<Search::Try> Search::to_try() const {
  std::vector<Try> tries;
  for (const bool generic : {false, true}) add_tries_in_all(generic, tries);
  add_tries_in_alike(tries);
  for (const bool generic : {false, true}) add_tries_in_one(generic, tries);
  return tries;
}

void Search::add_tries_in_all(bool generic, std::vector<Try>& tries) const {
  std::set<Checkpoint> seen;
  for (const Op op : chain_.ops()) {
    if (!chain_.is_suspect(op) || !seen.insert(op.checkpoint).second) continue;
    for (BoundMistake& mistake : mistakes_of(network_, op)) {
      if (mistake.generic == generic) tries.push_back({std::move(mistake), op});
    }
  }
}

void Search::add_tries_in_alike(std::vector<Try>& tries) const {
  std::set<std::pair<Checkpoint, std::set<int>>> seen;
  for (const Op op : chain_.ops()) {
    if (op.layer < 0 || !chain_.is_suspect(op)) continue;
    const std::set<Op> all = places({op.checkpoint});
    for (const Trait& trait : kTraits) {
      const bool has = trait.has(network_, op.layer);
      std::set<int> layers;
      for (const Op other : all) {
        if (trait.has(network_, other.layer) == has) layers.insert(other.layer);
      }
      if (layers.size() < 2 || layers.size() == all.size()) continue;
      if (!seen.insert({op.checkpoint, layers}).second) continue;
      for (BoundMistake& mistake : mistakes_of(network_, op)) {
        if (mistake.generic || mistake.of_all_layers) continue;
        tries.push_back({std::move(mistake), op, layers, has ? trait.with : trait.without});
      }
    }
  }
}

void Search::add_tries_in_one(bool generic, std::vector<Try>& tries) const {
  for (const Op op : chain_.ops()) {
    if (!chain_.is_suspect(op) || !is_repeated(op.checkpoint)) continue;
    for (BoundMistake& mistake : mistakes_of(network_, op)) {
      if (mistake.generic != generic || mistake.of_all_layers) continue;
      tries.push_back({std::move(mistake), op, {op.layer}});
    }
  }
}

}  // namespace assay::causes
