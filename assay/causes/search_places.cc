#include "assay/causes/search_places.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "assay/compare/log_probabilities.h"

namespace assay::causes {
namespace {

constexpr size_t kMaxFailing = 12;
constexpr size_t kMaxPassing = 4;

// The first two thirds of `most` as they come, the rest spread over what follows.
void choose(const std::vector<int64_t>& from, size_t most, std::set<int64_t>& chosen) {
  const size_t spread = most / 3;
  const size_t plain = std::min(from.size(), most - spread);
  for (size_t i = 0; i < plain; ++i) chosen.insert(from[i]);
  const size_t rest = from.size() - plain;
  for (size_t i = 0; i < spread && rest > 0; ++i) chosen.insert(from[plain + i * rest / spread]);
}

std::vector<int64_t> positions_below(const TensorStore& store, const std::string& checkpoint,
                                     int64_t first_token, int64_t end) {
  std::vector<int64_t> failing;
  std::vector<int64_t> passing;
  double largest = 0;
  const int32_t id = store.checkpoint_id(checkpoint);
  const auto& results = store.comparison().results;
  for (const RecordResult& result : results) {
    if (result.checkpoint != id || result.token_idx >= end) continue;
    const bool fails = result.failed() && result.token_idx >= first_token;
    (fails ? failing : passing).push_back(result.token_idx);
    if (result.metrics.rel_l2 > largest) largest = result.metrics.rel_l2;
  }
  if (failing.empty()) {
    constexpr double kNearLargest = 0.3;
    for (const RecordResult& result : results) {
      if (result.checkpoint == id && result.token_idx < end && largest > 0 &&
          result.metrics.rel_l2 >= kNearLargest * largest) {
        failing.push_back(result.token_idx);
      }
    }
  }
  std::set<int64_t> chosen;
  choose(failing, kMaxFailing, chosen);
  if (chosen.empty()) return {};
  // The first ones, and the last before what fails: a mistake that begins there is not made in it.
  const auto before = std::ranges::lower_bound(passing, failing.front()) - passing.begin();
  if (before > 0) chosen.insert(passing[static_cast<size_t>(before - 1)]);
  for (size_t i = 0; i < std::min(passing.size(), kMaxPassing - 1); ++i) chosen.insert(passing[i]);
  return {chosen.begin(), chosen.end()};
}

// The largest rel_l2 of a checkpoint that both logs have, where it is a number.
std::optional<double> worst_error(const TensorStore& store, Op op) {
  const int32_t id = store.checkpoint_id(op.name());
  std::optional<double> worst;
  for (const RecordResult& result : store.comparison().results) {
    const double error = result.metrics.rel_l2;
    if (result.checkpoint == id && std::isfinite(error)) worst = std::max(worst.value_or(0), error);
  }
  return worst;
}

}  // namespace

std::optional<Op> find_op(const std::string& checkpoint) {
  if (is_logits_name(checkpoint)) return Op{Checkpoint::kLogits, -1};
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  const std::optional<Checkpoint> known = find_checkpoint(name.op, name.layer >= 0);
  return known ? std::optional(Op{*known, name.layer}) : std::nullopt;
}

std::vector<int64_t> positions_to_try(const TensorStore& store, const std::string& checkpoint,
                                      int64_t first_token) {
  const int64_t prompt = std::ssize(store.tokens());
  // After the prompt each engine may go on with tokens of its own.
  if (prompt > first_token) {
    auto positions = positions_below(store, checkpoint, first_token, prompt);
    if (!positions.empty()) return positions;
  }
  return positions_below(store, checkpoint, first_token, std::numeric_limits<int64_t>::max());
}

std::optional<Tail> failing_tail(const TensorStore& store, const std::string& checkpoint) {
  constexpr double kFar = 10;
  constexpr double kNoise = 1e-6;
  const int32_t id = store.checkpoint_id(checkpoint);
  std::map<int64_t, const RecordResult*> results;
  for (const RecordResult& result : store.comparison().results) {
    if (result.checkpoint == id) results[result.token_idx] = &result;
  }
  const auto fails = [](const auto& one) { return one.second->failed(); };
  const auto from = std::find_if(results.begin(), results.end(), fails);
  if (from == results.begin() || std::distance(from, results.end()) < 2) return std::nullopt;
  double before = kNoise;
  for (auto at = results.begin(); at != from; ++at) {
    before = std::max(before, at->second->metrics.rel_l2);
  }
  const bool runs_to_the_end = std::all_of(from, results.end(), [&](const auto& one) {
    return fails(one) || one.second->metrics.rel_l2 > kFar * before;
  });
  if (!runs_to_the_end) return std::nullopt;
  return Tail{from->first, results.begin()->first, std::prev(from)->first};
}

std::optional<Op> other_of_gate_and_up(Op op) {
  if (op.checkpoint == Checkpoint::kFfnGate) return Op{Checkpoint::kFfnUp, op.layer};
  if (op.checkpoint == Checkpoint::kFfnUp) return Op{Checkpoint::kFfnGate, op.layer};
  return std::nullopt;
}

bool is_refuted_by_other(const std::string& cause, const TensorStore& store, Op op,
                         const std::vector<int64_t>& positions) {
  const bool of_both = cause == "gate_up_swapped";
  const std::optional<Op> other = other_of_gate_and_up(op);
  if (!other || (!of_both && cause != "gate_as_up" && cause != "up_as_gate")) return false;
  bool is_known = false;
  bool fails = false;
  for (const int64_t position : positions) {
    const RecordResult* result = store.result(other->name(), position);
    is_known = is_known || result != nullptr;
    fails = fails || (result != nullptr && result->failed());
  }
  return is_known && fails != of_both;
}

std::optional<Op> worst_input(const Network& network, const TensorStore& store, Op op) {
  constexpr double kMostGrowth = 100;  // of an error from there to the op
  std::optional<Op> worst;
  double most = worst_error(store, op).value_or(0) / kMostGrowth;
  std::set<Op> seen;
  std::vector<Op> open = network.inputs(op);
  while (!open.empty()) {
    const Op input = open.back();
    open.pop_back();
    if (!seen.insert(input).second) continue;
    if (const std::optional<double> error = worst_error(store, input)) {
      if (!(*error > most)) continue;
      most = *error;
      worst = input;
    } else {
      const std::vector<Op> before = network.inputs(input);
      open.insert(open.end(), before.begin(), before.end());
    }
  }
  return worst;
}

}  // namespace assay::causes
