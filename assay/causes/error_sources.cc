#include "assay/causes/error_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "assay/causes/chain.h"
#include "assay/causes/evidence.h"

namespace assay::causes {
namespace {

constexpr size_t kMostFailing = 12;
constexpr size_t kMostPassing = 4;
constexpr size_t kMostCheckpoints = 400;  // whose errors are split
constexpr size_t kTokensOfEach = 4;
constexpr double kMostMultiplications = 1e10;  // after which nothing more is recomputed
constexpr double kMostOfOne = 1e11;            // of one recomputation: some seconds of one core
constexpr double kUnchanged = 1e-3;  // an input that is off by this share of the error brings none

int32_t id_of(const Comparison& comparison, const std::string& checkpoint) {
  for (size_t i = 0; i < comparison.checkpoints.size(); ++i) {
    if (comparison.checkpoints[i].name == checkpoint) return static_cast<int32_t>(i);
  }
  return -1;
}

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
  const int32_t id = id_of(store.comparison(), checkpoint);
  const auto& results = store.comparison().results;
  for (const RecordResult& result : results) {
    if (result.checkpoint != id || result.token_idx >= end) continue;
    const bool fails = !result.pass && result.token_idx >= first_token;
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
  choose(failing, kMostFailing, chosen);
  if (chosen.empty()) return {};
  for (size_t i = 0; i < std::min(passing.size(), kMostPassing); ++i) chosen.insert(passing[i]);
  return {chosen.begin(), chosen.end()};
}

double relative(double squares, double of) {
  return of > 0 ? std::sqrt(squares / of) : std::numeric_limits<double>::infinity();
}

// The largest error of the op's logged inputs at a token; nothing if one is not logged.
std::optional<double> input_error(const Network& network, const TensorStore& store, Op op,
                                  int64_t token_idx) {
  double most = 0;
  const std::vector<Op> inputs = network.inputs(op);
  if (inputs.empty()) return std::nullopt;
  for (const Op input : inputs) {
    const RecordResult* result = store.result(input.name(), token_idx);
    if (result == nullptr) return std::nullopt;
    most = std::max(most, result->metrics.rel_l2);
  }
  return most;
}

class Splitter {
 public:
  Splitter(const Network& network, TensorStore& store) : network_(network), store_(store) {}

  std::optional<ErrorSource> split(const CheckpointName& name,
                                   const std::vector<const RecordResult*>& failing) {
    ErrorSource source;
    source.checkpoint = name;
    source.failed = std::ssize(failing);
    take(*failing.front(), source);
    for (const RecordResult* result : failing) {
      if (!(result->metrics.rel_l2 <= source.rel_l2)) take(*result, source);
    }
    const std::optional<Op> op = find_op(name.name);
    if (!op || !std::isfinite(source.rel_l2)) return source;
    recompute(*op, failing, source);
    if (!fits_) return source;
    source.input_rel_l2 = input_error(network_, store_, *op, source.token_idx);
    if (!source.own && source.input_rel_l2 && *source.input_rel_l2 <= kUnchanged * source.rel_l2) {
      source.own = source.rel_l2;
      source.inherited = 0;
    }
    return source;
  }

 private:
  static void take(const RecordResult& result, ErrorSource& source) {
    source.token_idx = result.token_idx;
    source.rel_l2 = result.metrics.rel_l2;
  }

  void recompute(Op op, const std::vector<const RecordResult*>& failing, ErrorSource& source) {
    std::set<int64_t> positions = {source.token_idx};
    for (size_t i = 0; i < failing.size() && positions.size() < kTokensOfEach; ++i) {
      positions.insert(failing[i]->token_idx);
    }
    const Chain chain(network_, store_, op, {positions.begin(), positions.end()});
    fits_ = chain.misfit().empty();
    if (!chain.complete() || work_ > kMostMultiplications ||
        chain.base_multiplications() > kMostOfOne) {
      return;
    }
    const Evidence evidence(store_, op.name(), {positions.begin(), positions.end()});
    const auto right = evidence.features(chain.base(), chain.positions());
    work_ += chain.multiplications();
    for (size_t t = 0; t < right.size(); ++t) {
      const Evidence::Token& token = evidence.tokens()[t];
      if (right[t].empty()) continue;
      const double norm = square_sum(token.ref);
      const double own = relative(square_sum(token.got, right[t]), norm);
      const double inherited = relative(square_sum(right[t], token.ref), norm);
      if (std::isnan(own) || std::isnan(inherited)) continue;
      if (source.own && !(own > *source.own)) continue;
      source.own = own;
      source.inherited = inherited;
      source.rel_l2 = relative(square_sum(token.got, token.ref), norm);
      source.token_idx = token.token_idx;
    }
  }

  const Network& network_;
  TensorStore& store_;
  double work_ = 0;
  bool fits_ = true;  // the logged inputs of the last, by their sizes
};

}  // namespace

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

std::optional<Op> worst_input(const Network& network, const TensorStore& store, Op op) {
  std::optional<Op> worst;
  double most = 0;
  for (const Op input : network.inputs(op)) {
    const int32_t id = id_of(store.comparison(), input.name());
    for (const RecordResult& result : store.comparison().results) {
      if (result.checkpoint != id || !(result.metrics.rel_l2 > most)) continue;
      most = result.metrics.rel_l2;
      worst = input;
    }
  }
  return worst;
}

void find_error_sources(const Network& network, TensorStore& store, Comparison& comparison) {
  std::map<std::pair<ComputeOrder, int32_t>, std::vector<const RecordResult*>> failing;
  for (const RecordResult& result : comparison.results) {
    if (result.pass) continue;
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    failing[{compute_order(name, result.checkpoint), result.checkpoint}].push_back(&result);
  }
  Splitter splitter(network, store);
  for (const auto& [key, results] : failing) {
    if (comparison.error_sources.size() >= kMostCheckpoints) break;
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(key.second)];
    if (auto source = splitter.split(name, results)) comparison.error_sources.push_back(*source);
  }
  // Those that made most first; those that are not known last, as they are computed.
  std::stable_sort(comparison.error_sources.begin(), comparison.error_sources.end(),
                   [](const ErrorSource& a, const ErrorSource& b) {
                     return a.own.value_or(-1) > b.own.value_or(-1);
                   });
}

}  // namespace assay::causes
