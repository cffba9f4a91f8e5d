#include "assay/causes/error_sources.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "assay/causes/chain.h"
#include "assay/causes/evidence.h"
#include "assay/causes/search_places.h"

namespace assay::causes {
namespace {

constexpr size_t kMaxCheckpoints = 400;  // whose errors are split
constexpr size_t kTokensOfEach = 4;
constexpr double kMaxMultiplications = 1e10;  // after which nothing more is recomputed
constexpr double kMaxOfOne = 1e11;            // of one recomputation: some seconds of one core
constexpr double kUnchanged = 1e-3;  // an input that is off by this share of the error brings none

double relative(double squares, double of) {
  return of > 0 ? std::sqrt(squares / of) : std::numeric_limits<double>::infinity();
}

// The largest error of the logged inputs that the op's result at a token is computed from; nothing
// if one is not logged.
std::optional<double> input_error(const Network& network, const TensorStore& store, Op op,
                                  int64_t token_idx) {
  double most = 0;
  const std::vector<Op> inputs = network.inputs(op);
  if (inputs.empty()) return std::nullopt;
  // Attention reads every position up to its own.
  const int64_t first = reads_back(network.kind_of(op)) ? 0 : token_idx;
  for (const Op input : inputs) {
    for (int64_t position = first; position <= token_idx; ++position) {
      const RecordResult* result = store.result(input.name(), position);
      if (result == nullptr || std::isnan(result->metrics.rel_l2)) return std::nullopt;
      most = std::max(most, result->metrics.rel_l2);
    }
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
    source.inputs_are_partial = source.inputs_are_partial && !source.own;
    return source;
  }

 private:
  static void take(const RecordResult& result, ErrorSource& source) {
    source.token_idx = result.token_idx;
    source.rel_l2 = result.metrics.rel_l2;
  }

  // Whether the judged log holds a part of its values.
  bool is_partial(const RecordResult& result) {
    const auto at = static_cast<size_t>(result.checkpoint);
    const Record* got = store_.got(store_.comparison().checkpoints[at].name, result.token_idx);
    return got != nullptr && !got->has_all_values();
  }

  void recompute(Op op, const std::vector<const RecordResult*>& failing, ErrorSource& source) {
    std::set<int64_t> positions = {source.token_idx};
    for (size_t i = 0; i < failing.size() && positions.size() < kTokensOfEach; ++i) {
      positions.insert(failing[i]->token_idx);
    }
    const Chain chain(network_, store_, op, {positions.begin(), positions.end()});
    fits_ = chain.size_mismatch().empty();
    if (!chain.complete() || work_ > kMaxMultiplications ||
        chain.base_multiplications() > kMaxOfOne) {
      return;
    }
    const Evidence evidence(store_, op.name(), {positions.begin(), positions.end()});
    const auto right = evidence.features(chain.base(), chain.positions());
    work_ += chain.base_multiplications();
    for (size_t t = 0; t < right.size(); ++t) {
      const Evidence::Token& token = evidence.tokens()[t];
      if (right[t].empty()) continue;
      if (const RecordResult* input = chain.failure_passed_over(token.token_idx)) {
        source.inputs_are_partial = source.inputs_are_partial || is_partial(*input);
        continue;
      }
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

void find_error_sources(const Network& network, TensorStore& store, Comparison& comparison) {
  std::map<std::pair<ComputeOrder, int32_t>, std::vector<const RecordResult*>> failing;
  for (const RecordResult& result : comparison.results) {
    if (!result.failed() || !result.of_ref) continue;
    const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
    failing[{compute_order(name, result.checkpoint), result.checkpoint}].push_back(&result);
  }
  Splitter splitter(network, store);
  for (const auto& [key, results] : failing) {
    if (comparison.error_sources.size() >= kMaxCheckpoints) break;
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
