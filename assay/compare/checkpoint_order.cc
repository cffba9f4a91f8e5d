#include "assay/compare/checkpoint_order.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <system_error>

#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr std::string_view kPrefix = "layer_";
constexpr int kAfterLayerOps = kCheckpoints;

// Where a checkpoint stands: in the log, by the known one before it, and among all.
struct Place {
  ComputeOrder logged;
  ComputeOrder sorted;
};

// The place of an unknown name that is logged after `before`. `arrival` is above 0.
Place place_after(const Place& before, const CheckpointName& name, int64_t arrival) {
  const auto at = [&](const ComputeOrder& order) {
    return ComputeOrder{order.phase, order.layer, order.op, arrival};
  };
  const Place here = {at(before.logged), at(before.sorted)};
  const ComputeOrder& logged = here.logged;
  const bool in_its_layer = logged.phase == 1 && logged.layer == name.layer;
  if (name.layer < 0 || in_its_layer) return here;
  // As near as its layer allows.
  const ComputeOrder first = {1, name.layer, -1, arrival};
  const ComputeOrder last = {1, name.layer, kAfterLayerOps, arrival};
  return {logged, logged < first ? first : last};
}

}  // namespace

CheckpointName parse_checkpoint_name(std::string_view name) {
  CheckpointName parsed{std::string(name), -1, std::string(name), false, {}};
  if (name.starts_with(kPrefix)) {
    const char* digits = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    int layer = 0;
    const auto [stop, error] = std::from_chars(digits, end, layer);
    const bool plain = *digits != '-' && (*digits != '0' || stop == digits + 1);
    if (error == std::errc() && plain && stop + 1 < end && *stop == '_') {
      parsed.layer = layer;
      parsed.op = std::string(stop + 1, end);
      parsed.known = find_checkpoint(parsed.op, true).has_value();
      return parsed;
    }
  }
  parsed.known = find_checkpoint(name, false).has_value();
  return parsed;
}

bool is_experts(const CheckpointName& name) {
  return name.layer >= 0 && name.op == checkpoint_op(Checkpoint::kExperts);
}

bool is_positions(const CheckpointName& name) {
  return name.layer >= 0 && name.op == checkpoint_op(Checkpoint::kIndexed);
}

bool holds_ids(const CheckpointName& name) {
  return is_experts(name) || is_positions(name);
}

ComputeOrder compute_order(const CheckpointName& name, int64_t arrival) {
  const std::optional<Checkpoint> known = find_checkpoint(name.op, name.layer >= 0);
  const int op = known ? static_cast<int>(*known) : kAfterLayerOps;
  if (name.layer >= 0) return {1, name.layer, op, known ? 0 : arrival};
  if (known) return {*known == Checkpoint::kEmbedding ? 0 : 2, 0, op, 0};
  return {3, 0, 0, arrival};
}

std::vector<int32_t> order_checkpoints(const std::vector<ArrivedCheckpoint>& arrived) {
  constexpr ComputeOrder kBeforeAll = {-1, 0, 0, 0};
  std::vector<Place> places;
  places.reserve(arrived.size());
  for (const auto& [name, after] : arrived) {
    const auto arrival = static_cast<int64_t>(places.size()) + 1;
    const bool is_first = after < 0 || after + 1 >= arrival;
    if (name.known) {
      const ComputeOrder order = compute_order(name, 0);
      places.push_back({order, order});
    } else {
      const Place before =
          is_first ? Place{kBeforeAll, kBeforeAll} : places[static_cast<size_t>(after)];
      places.push_back(place_after(before, name, arrival));
    }
  }
  std::vector<int32_t> sorted(arrived.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
    return places[static_cast<size_t>(a)].sorted < places[static_cast<size_t>(b)].sorted;
  });
  std::vector<int32_t> ranks(arrived.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    ranks[static_cast<size_t>(sorted[i])] = static_cast<int32_t>(i);
  }
  return ranks;
}

std::vector<int32_t> order_checkpoints(const std::vector<CheckpointName>& names) {
  std::vector<ArrivedCheckpoint> arrived;
  arrived.reserve(names.size());
  for (const CheckpointName& name : names) {
    arrived.push_back({name, static_cast<int32_t>(arrived.size()) - 1});
  }
  return order_checkpoints(arrived);
}

}  // namespace assay
