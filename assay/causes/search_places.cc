#include "assay/causes/search_places.h"

#include <algorithm>
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
  for (size_t i = 0; i < std::min(passing.size(), kMaxPassing); ++i) chosen.insert(passing[i]);
  return {chosen.begin(), chosen.end()};
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

std::optional<Op> worst_input(const Network& network, const TensorStore& store, Op op) {
  std::optional<Op> worst;
  double most = 0;
  for (const Op input : network.inputs(op)) {
    const int32_t id = store.checkpoint_id(input.name());
    for (const RecordResult& result : store.comparison().results) {
      if (result.checkpoint != id || !(result.metrics.rel_l2 > most)) continue;
      most = result.metrics.rel_l2;
      worst = input;
    }
  }
  return worst;
}

}  // namespace assay::causes
