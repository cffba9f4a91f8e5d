#include "assay/golden/allowed_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/policy.h"
#include "assay/golden/floors.h"
#include "assay/golden/measure_floors.h"
#include "model/checkpoint.h"

namespace assay {
namespace {

// Of float32 against float64. The largest of the goldens is 2.3e-5, of SmolLM2's 30 layers; of a
// product of one number a token, which may be next to 0, 9.6e-5.
constexpr double kMostOfFloat32 = 1e-4;
// Between the worst floors of neighbouring layers, whichever is larger: 6.3 in the goldens.
constexpr double kMostBetweenLayers = 10;

struct NamedFloor {
  CheckpointName name;  // or a kind's
  double floor = 0;
};

bool is_output(const CheckpointName& name) {
  return name.op == "output" || name.name == "output";
}

// Of the manifest's choice, as a comparison takes them: of checkpoints, then of kinds.
std::vector<NamedFloor> floors_of(const GoldenManifest& manifest, const GoldenFile& file) {
  std::vector<NamedFloor> floors;
  const std::string& chosen = manifest.tolerance.floor;
  for (const auto& [checkpoint, all] : file.floors_by_checkpoint) {
    if (!all.contains(chosen)) continue;
    floors.push_back({parse_checkpoint_name(checkpoint), *floor_of(file, chosen, checkpoint)});
  }
  for (const auto& [kind, all] : file.floors) {
    if (!all.contains(chosen)) continue;
    floors.push_back({parse_checkpoint_name(kind), *floor_of_kind(file, chosen, kind)});
  }
  return floors;
}

template <class Wanted>
double largest(const std::vector<NamedFloor>& floors, const Wanted& is_wanted) {
  double found = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, floor] : floors) {
    if (is_wanted(name) && !(floor <= found)) found = floor;
  }
  return found;
}

const NamedFloor& largest_of(const std::vector<NamedFloor>& floors) {
  return *std::ranges::max_element(floors, {}, &NamedFloor::floor);
}

// A product of one number a token: where that is next to 0, its rounding is large beside it.
bool is_of_one_number(const CheckpointName& name) {
  return find_checkpoint(name.op, true) == Checkpoint::kSharedScore;
}

// The worst floor of a layer beside that of the next; what follows all layers comes last.
std::string uneven_layers(const std::vector<NamedFloor>& floors) {
  std::map<int, NamedFloor> worst;
  for (const NamedFloor& each : floors) {
    const bool is_behind = each.name.name == "final_norm" || is_logits_name(each.name.name);
    if ((each.name.layer < 0 && !is_behind) || is_of_one_number(each.name)) continue;
    NamedFloor& layer = worst[is_behind ? std::numeric_limits<int>::max() : each.name.layer];
    if (each.floor > layer.floor) layer = each;
  }
  const NamedFloor* before = nullptr;
  for (const auto& [place, layer] : worst) {
    const NamedFloor* last = std::exchange(before, &layer);
    if (last == nullptr) continue;
    const auto& [low, high] =
        std::minmax(*last, layer, [](const auto& a, const auto& b) { return a.floor < b.floor; });
    if (high.floor <= kMostBetweenLayers * low.floor) continue;
    return fmt::format("the floor of '{}' ({:.3g}) is {:.0f} times that of its neighbour '{}'",
                       printable(high.name.name, 60), high.floor, high.floor / low.floor,
                       printable(low.name.name, 60));
  }
  return {};
}

bool is_of_float32(const GoldenManifest& manifest) {
  return manifest.tolerance.floor.starts_with("f32");
}

std::string over(const NamedFloor& floor, double k) {
  return fmt::format("'{}' may be {:.3g} off ({:g} x {:.3g})", printable(floor.name.name, 60),
                     k * floor.floor, k, floor.floor);
}

}  // namespace

std::vector<AllowedErrors> allowed_errors(const GoldenManifest& manifest) {
  std::vector<AllowedErrors> all;
  const double k = manifest.tolerance.k;
  for (const GoldenFile& file : manifest.files) {
    const std::vector<NamedFloor> floors = floors_of(manifest, file);
    const auto is_logits = [](const CheckpointName& name) { return is_logits_name(name.name); };
    all.push_back({file.type, manifest.tolerance.floor, k, k * largest(floors, is_output),
                   k * largest(floors, is_logits)});
  }
  return all;
}

std::vector<std::string> wide_tolerances(const GoldenManifest& manifest) {
  std::vector<std::string> wide;
  const double k = manifest.tolerance.k;
  if (k > kUsualK) wide.push_back(fmt::format("k is {:g}, and {:g} is usual", k, kUsualK));
  for (const GoldenFile& file : manifest.files) {
    const std::vector<NamedFloor> floors = floors_of(manifest, file);
    if (floors.empty()) continue;
    const NamedFloor& worst = largest_of(floors);
    const auto add = [&](const std::string& what) {
      if (!what.empty()) wide.push_back(fmt::format("{}: {}", printable(file.type, 20), what));
    };
    if (k * worst.floor > kDefaultRelL2 && !is_of_float32(manifest)) {
      add(fmt::format("{}, which is wider than the built-in tolerance of {:g}", over(worst, k),
                      kDefaultRelL2));
    }
    add(uneven_layers(floors));
  }
  return wide;
}

std::vector<std::string> tolerances_beyond_float32(const GoldenManifest& manifest) {
  std::vector<std::string> beyond;
  if (!is_of_float32(manifest)) return beyond;
  const double k = manifest.tolerance.k;
  for (const GoldenFile& file : manifest.files) {
    const std::vector<NamedFloor> floors = floors_of(manifest, file);
    if (floors.empty()) continue;
    const NamedFloor& worst = largest_of(floors);
    if (k * worst.floor <= kUsualK * kMostOfFloat32) continue;
    beyond.push_back(fmt::format("{}: {}, and float32 does not cost more than {:g} x {:g}",
                                 printable(file.type, 20), over(worst, k), kUsualK,
                                 kMostOfFloat32));
  }
  return beyond;
}

}  // namespace assay
