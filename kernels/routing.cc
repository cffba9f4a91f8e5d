#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace assay {
namespace {

// e^(score - greatest score), divided by their sum.
std::vector<double> softmax(std::span<const float> scores) {
  const double greatest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> shares;
  for (const float score : scores) shares.push_back(std::exp(score - greatest));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

// What the expert of `ids[slot]` has of a softmax over itself and those of the experts that are not
// in front of it in `ids` whose scores are below its own by at most 2 jitter of the greater of the
// two, without the sign.
double share_among_near(std::span<const float> scores, std::span<const int32_t> ids, size_t slot,
                        double jitter) {
  const double best = scores[static_cast<size_t>(ids[slot])];
  const std::span<const int32_t> before = ids.first(slot);
  double sum = 0.0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::ranges::find(before, static_cast<int32_t>(i)) != before.end()) continue;
    const double score = scores[i];
    if ((best - score) / std::max(std::abs(score), best) > 2.0 * jitter) continue;
    sum += std::exp(score - best);
  }
  return 1.0 / sum;
}

std::vector<double> gated(std::span<const float> scores, Gating gating) {
  if (gating == Gating::kSoftmax) return softmax(scores);
  std::vector<double> values(scores.begin(), scores.end());
  if (gating == Gating::kSigmoid) {
    for (double& value : values) value = 1.0 / (1.0 + std::exp(-value));
  }
  return values;
}

// The `count` indices of the greatest values, greatest first; NaN is the least.
std::vector<int32_t> greatest_of(const std::vector<double>& values, int64_t count) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) {
    const double value = values[static_cast<size_t>(i)];
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return key(a) > key(b); });
  order.resize(static_cast<size_t>(count));
  return order;
}

// Experts of groups that are not used become unchoosable.
void keep_best_groups(const Routing& routing, std::vector<double>& values) {
  const auto size = static_cast<size_t>(routing.n_experts / routing.n_groups);
  std::vector<double> merits;
  for (size_t first = 0; first < values.size(); first += size) {
    std::vector<double> group(values.begin() + static_cast<int64_t>(first),
                              values.begin() + static_cast<int64_t>(first + size));
    std::sort(group.begin(), group.end(), std::greater<>());
    const bool by_two = routing.gating == Gating::kSigmoid && size > 1;
    merits.push_back(by_two ? group[0] + group[1] : group[0]);
  }
  const std::vector<int32_t> best = greatest_of(merits, routing.n_groups_used);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::find(best.begin(), best.end(), static_cast<int32_t>(i / size)) == best.end()) {
      values[i] = -std::numeric_limits<double>::infinity();
    }
  }
}

std::span<const float> scores_of(const float* scores, const Routing& routing, int64_t token) {
  return {scores + token * routing.n_experts, static_cast<size_t>(routing.n_experts)};
}

}  // namespace

void Kernels::run(const SelectCall& call) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const std::vector<double> merits =
        gated(scores_of(call.scores, call.routing, t), call.routing.gating);
    std::vector<double> values = merits;
    for (size_t i = 0; call.bias != nullptr && i < values.size(); ++i) {
      values[i] += static_cast<double>(call.bias[i]);
    }
    if (call.routing.n_groups > 1) keep_best_groups(call.routing, values);
    const std::vector<int32_t> chosen = greatest_of(values, call.routing.n_used);
    int32_t* out = call.ids + t * call.routing.n_used;
    for (const int32_t id : greatest_of(merits, call.routing.n_experts)) {
      if (std::ranges::find(chosen, id) != chosen.end()) *out++ = id;
    }
  }
}

void Kernels::run(const WeighCall& call) {
  const auto n_used = static_cast<size_t>(call.routing.n_used);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const std::span<const float> scores = scores_of(call.scores, call.routing, t);
    const std::span<const int32_t> ids(call.ids + t * call.routing.n_used, n_used);
    std::vector<double> weights;
    if (call.routing.gating == Gating::kSoftmaxOfUsed) {
      std::vector<float> used;
      for (const int32_t id : ids) used.push_back(scores[static_cast<size_t>(id)]);
      weights = softmax(used);
    } else if (call.routing.gating == Gating::kSparseMixer) {
      for (size_t j = 0; j < n_used; ++j) {
        weights.push_back(share_among_near(scores, ids, j, call.routing.jitter));
      }
    } else {
      const std::vector<double> values = gated(scores, call.routing.gating);
      for (const int32_t id : ids) weights.push_back(values[static_cast<size_t>(id)]);
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), call.routing.added_to_sum);
    float* out = call.weights + t * call.routing.n_used;
    for (size_t j = 0; j < n_used; ++j) {
      const double weight = call.routing.normalise ? weights[j] / sum : weights[j];
      const double scale = call.scales == nullptr ? 1.0 : static_cast<double>(call.scales[ids[j]]);
      out[j] = static_cast<float>(weight * static_cast<double>(call.routing.scale) * scale);
    }
  }
}

}  // namespace assay
