#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assay/causes/search.h"

// Where a mistake is, in words.
namespace assay::causes {

// The checkpoints of these kinds that `one` changes, in words.
std::string Search::place_of(const Kinds& kinds, const Try& one) const {
  const std::set<Op> wrong = places(kinds, one.layers);
  const bool repeated = std::ranges::count(wrong, wrong.begin()->checkpoint, &Op::checkpoint) > 1;
  std::vector<std::string> names;
  for (const Checkpoint kind : kinds) {
    const auto op = std::ranges::find(wrong, kind, &Op::checkpoint);
    if (op == wrong.end()) continue;
    names.push_back(repeated && op->layer >= 0 ? parse_checkpoint_name(op->name()).op : op->name());
  }
  std::string first = (repeated && one.which.empty() ? "every layer's " : "") + names.front();
  if (!one.which.empty()) first += fmt::format(" of every layer {}", one.which);
  if (names.size() == 1) return first;
  names.erase(names.begin());
  return fmt::format("{}, like {},", first, fmt::join(names, " and "));
}

// Of all that a single layer adds to the residual stream, or of all its weights, in words of the
// layer.
void Search::tell_as_layer(const Kinds& kinds, const Try& one, Candidate& found) const {
  const std::set<Op> wrong = places(kinds, one.layers);
  const int layer = wrong.begin()->layer;
  if (one.mistake.name == "multipliers") {
    found.where = "the engine";  // which of the ops have one, the text says
    return;
  }
  if (one.mistake.name == "layer_order" && wrong.size() > 1) {
    const bool is_one = std::ranges::all_of(wrong, [&](Op op) { return op.layer == layer; });
    found.where = is_one ? fmt::format("layer_{}", layer) : "each layer";
    if (is_one && one.mistake.text_of_layer) {
      found.text = one.mistake.text_of_layer(found.parameter);
    }
    return;
  }
  if (!one.mistake.text_of_layer) return;
  const bool is_all = wrong.contains({Checkpoint::kAttnResidual, layer}) &&
                      wrong.contains({Checkpoint::kOutput, layer});
  const std::string text = one.mistake.text_of_layer(found.parameter);
  if (!is_all || wrong.size() != 2 || text.empty()) return;
  found.where = fmt::format("layer_{}", layer);
  found.text = text;
}

}  // namespace assay::causes
