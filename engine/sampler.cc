#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace assay {
namespace {

// Highest logit first; among equal ones the lowest id.
bool comes_before(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// Whether none of `logits` comes before `best` and each is a number: then they need not be looked
// at one by one. Whole numbers in the order of the floats, which any compiler makes vectors of.
bool can_be_passed_over(std::span<const float> logits, float best) {
  const auto place = [](float value) {
    const auto bits = std::bit_cast<int32_t>(value);
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
  };
  constexpr int32_t kInfinity = 0x7F800000;
  int32_t highest = place(-INFINITY);
  int32_t largest = 0;  // without their signs; of no number above that of infinity
  for (const float logit : logits) {
    highest = std::max(highest, place(logit));
    largest = std::max(largest, std::bit_cast<int32_t>(logit) & 0x7FFFFFFF);
  }
  return highest <= place(best) && largest <= kInfinity && highest < kInfinity;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature)) {
    throw Error(fmt::format("{} is out of range", options.temperature), "--temp",
                "give a number of 0 or more");
  }
  if (options.top_k < 0) {
    throw Error(fmt::format("{} is out of range", options.top_k), "--top-k",
                "give 0 (off) or more");
  }
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    throw Error(fmt::format("{} is out of range", options.top_p), "--top-p",
                "give a number above 0 and up to 1");
  }
}

int32_t Sampler::sample(std::span<const float> logits, const std::vector<bool>& choosable) {
  std::vector<Candidate> candidates;
  Candidate best{-INFINITY, -1};
  const size_t count = std::min(logits.size(), choosable.size());
  const bool greedy = options_.temperature == 0.0;
  const auto look_at = [&](size_t id) {
    const Candidate candidate{logits[id], static_cast<int32_t>(id)};
    if (std::isnan(candidate.first) || candidate.first == INFINITY) {
      throw Error(fmt::format("the logit of token {} is {}", id,
                              std::isnan(candidate.first) ? "not a number" : "infinite"),
                  {},
                  "no token can be chosen; log with --checkpoints ops to find where it comes from");
    }
    if (best.second < 0 || comes_before(candidate, best)) best = candidate;
    if (!greedy) candidates.push_back(candidate);
  };
  constexpr size_t kGroup = 256;
  for (size_t first = 0; first < count; first += kGroup) {
    const size_t end = std::min(first + kGroup, count);
    if (greedy && best.second >= 0 &&
        can_be_passed_over(logits.subspan(first, end - first), best.first)) {
      continue;
    }
    for (size_t id = first; id < end; ++id) {
      if (choosable[id]) look_at(id);
    }
  }
  if (best.second < 0) throw Error("the vocabulary has no token that may be chosen");
  return greedy ? best.second : draw(candidates);
}

int32_t Sampler::draw(std::vector<Candidate>& candidates) {
  const size_t top_k = options_.top_k == 0
                           ? candidates.size()
                           : std::min(candidates.size(), static_cast<size_t>(options_.top_k));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(top_k),
                    candidates.end(), comes_before);
  candidates.resize(top_k);

  const double highest = static_cast<double>(candidates.front().first);
  const auto weights = [&](double temperature) {
    std::vector<double> result;
    for (const Candidate& candidate : candidates) {
      // -inf - -inf would be no number: if all logits are -inf they weigh the same.
      const double logit = static_cast<double>(candidate.first);
      result.push_back(logit == highest ? 1.0 : std::exp((logit - highest) / temperature));
    }
    return result;
  };

  if (options_.top_p < 1.0) {
    const std::vector<double> weight = weights(1.0);
    double total = 0.0;
    for (const double each : weight) total += each;
    double sum = 0.0;
    size_t kept = 0;
    while (kept < weight.size() && sum < options_.top_p * total) sum += weight[kept++];
    candidates.resize(std::max<size_t>(kept, 1));
  }

  const std::vector<double> weight = weights(options_.temperature);
  double total = 0.0;
  for (const double each : weight) total += each;
  // 53 random bits as a number in [0, 1): the standard distributions differ between libraries.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (size_t i = 0; i < weight.size(); ++i) {
    left -= weight[i];
    if (left < 0.0) return candidates[i].second;
  }
  return candidates.back().second;
}

}  // namespace assay
