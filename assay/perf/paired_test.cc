#include "assay/perf/paired_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace assay {
namespace {

constexpr size_t kMostExact = 50;

// Twice the rank of each |difference| among the non-zero ones, which is whole where ties share
// their mean rank; and twice the sum of those of positive differences.
struct Ranks {
  std::vector<int64_t> doubled;
  int64_t positive = 0;
};

Ranks rank(std::span<const double> differences) {
  std::vector<double> values;
  for (const double value : differences) {
    if (value != 0) values.push_back(value);
  }
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::fabs(a) < std::fabs(b); });
  Ranks ranks;
  for (size_t first = 0; first < values.size();) {
    size_t end = first;
    while (end < values.size() && std::fabs(values[end]) == std::fabs(values[first])) ++end;
    const auto doubled = static_cast<int64_t>(first + end + 1);
    for (; first < end; ++first) {
      ranks.doubled.push_back(doubled);
      if (values[first] > 0) ranks.positive += doubled;
    }
  }
  return ranks;
}

// counts[s]: in how many of the 2^n choices of signs the positive ranks have the sum s. In double:
// exact below 2^53, and its relative error is negligible beyond.
std::vector<double> sign_distribution(const std::vector<int64_t>& ranks) {
  const int64_t total = std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
  std::vector<double> counts(static_cast<size_t>(total) + 1, 0.0);
  counts[0] = 1;
  int64_t reached = 0;
  for (const int64_t rank : ranks) {
    reached += rank;
    for (int64_t sum = reached; sum >= rank; --sum) {
      counts[static_cast<size_t>(sum)] += counts[static_cast<size_t>(sum - rank)];
    }
  }
  return counts;
}

double normal_tail(double z) {
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

double two_sided_p(const Ranks& ranks) {
  const size_t n = ranks.doubled.size();
  if (n == 0) return 1;
  const int64_t total = std::accumulate(ranks.doubled.begin(), ranks.doubled.end(), int64_t{0});
  const int64_t smaller = std::min(ranks.positive, total - ranks.positive);
  if (n > kMostExact) {
    double variance = 0;
    for (const int64_t doubled : ranks.doubled) {
      variance += static_cast<double>(doubled) * static_cast<double>(doubled) / 16;
    }
    const double distance = static_cast<double>(total) / 4 - static_cast<double>(smaller) / 2;
    return std::min(1.0, 2 * normal_tail(distance / std::sqrt(variance)));
  }
  const std::vector<double> counts = sign_distribution(ranks.doubled);
  const double tail = std::accumulate(counts.begin(), counts.begin() + smaller + 1, 0.0);
  return std::min(1.0, 2 * tail / std::exp2(static_cast<double>(n)));
}

// How many of the smallest, and of the largest, means of pairs lie outside the interval.
int64_t cut_off(size_t n, double alpha) {
  const double half = alpha / 2;
  if (n > kMostExact) {
    const auto count = static_cast<double>(n);
    const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
    double low = 0;
    double high = 40;
    for (int step = 0; step < 100; ++step) {
      const double middle = (low + high) / 2;
      (normal_tail(middle) > half ? low : high) = middle;
    }
    return std::max<int64_t>(
        0, static_cast<int64_t>(std::floor(count * (count + 1) / 4 - high * deviation)));
  }
  std::vector<int64_t> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 1);
  const std::vector<double> counts = sign_distribution(ranks);
  const double all = std::exp2(static_cast<double>(n));
  double below = 0;
  int64_t cut = 0;
  for (const double count : counts) {
    below += count / all;
    if (!(below <= half)) break;
    ++cut;
  }
  return cut;
}

}  // namespace

PairedTest paired_test(std::span<const double> differences, double alpha) {
  const size_t n = differences.size();
  std::vector<double> means;
  means.reserve(n * (n + 1) / 2);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) means.push_back((differences[i] + differences[j]) / 2);
  }
  std::sort(means.begin(), means.end());
  PairedTest test;
  const size_t middle = means.size() / 2;
  test.estimate = means.size() % 2 == 1 ? means[middle] : (means[middle - 1] + means[middle]) / 2;
  test.p = two_sided_p(rank(differences));
  const int64_t cut = cut_off(n, alpha);
  if (cut == 0) {
    test.low = -std::numeric_limits<double>::infinity();
    test.high = std::numeric_limits<double>::infinity();
  } else {
    test.low = means[static_cast<size_t>(cut - 1)];
    test.high = means[means.size() - static_cast<size_t>(cut)];
  }
  return test;
}

}  // namespace assay
