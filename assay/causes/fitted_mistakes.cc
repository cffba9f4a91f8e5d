#include "assay/causes/fitted_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "assay/mistakes/number_text.h"

namespace assay::causes {
namespace {

using Features = std::vector<std::vector<double>>;

constexpr double kZero = 0.05;  // factors below it are no scale but a tensor that is lost

void add_factor(const Evidence& evidence, const Features& right, std::vector<Fitted>& fitted) {
  double product = 0;
  double square = 0;
  Features negative = right;
  for (size_t t = 0; t < right.size(); ++t) {
    for (size_t i = 0; i < right[t].size(); ++i) {
      product += right[t][i] * evidence.tokens()[t].got[i];
      square += right[t][i] * right[t][i];
      negative[t][i] = -right[t][i];
    }
  }
  fitted.push_back({"sign", "has the opposite sign", 0, 0, std::move(negative)});
  if (!(square > 0)) return;
  const double factor = product / square;
  if (std::abs(factor) < kZero || is_nearly_one(factor)) return;
  Features scaled = right;
  for (auto& row : scaled) {
    for (double& value : row) value *= factor;
  }
  fitted.push_back({"scale",
                    fmt::format("is multiplied by {}", mistakes::number_unlike(factor, 1, 5)), 1, 0,
                    std::move(scaled)});
}

// What one factor for each element would leave of the difference if it were the mistake and a
// constant the explanation: nothing where `right` is the same at every token. Weighted with how
// much of the difference is at the element.
double left_of_factors(const Features& right, const Features& difference) {
  double left = 0;
  double all = 0;
  for (size_t i = 0; i < right[0].size(); ++i) {
    double sum = 0;
    double norm = 0;
    double energy = 0;
    for (size_t t = 0; t < right.size(); ++t) {
      sum += right[t][i];
      norm += right[t][i] * right[t][i];
      energy += difference[t][i] * difference[t][i];
    }
    const double constant = sum * sum / static_cast<double>(right.size());
    all += energy;
    left += norm > 0 ? energy * std::max(norm - constant, 0.0) / norm : energy;
  }
  return all > 0 ? left / all : 0;
}

void add_constant(const Evidence& evidence, const Features& right, std::vector<Fitted>& fitted) {
  constexpr size_t kMinRows = 3;
  constexpr double kOfFactors = 0.01;
  constexpr double kVaries = 1e-8;  // float's rounding makes 1e-14 of what does not
  Features known;
  Features difference;
  for (size_t t = 0; t < right.size(); ++t) {
    if (right[t].empty()) continue;
    known.push_back(right[t]);
    std::vector<double>& row = difference.emplace_back(evidence.tokens()[t].got);
    if (row.size() != known[0].size()) return;
    for (size_t i = 0; i < row.size(); ++i) row[i] -= right[t][i];
  }
  if (!has_distinct_rows(known, kMinRows)) return;
  std::vector<double> mean(known[0].size());
  for (const auto& row : difference) {
    for (size_t i = 0; i < row.size(); ++i)
      mean[i] += row[i] / static_cast<double>(difference.size());
  }
  double residual = 0;
  double all = 0;
  for (const auto& row : difference) {
    residual += square_sum(row, mean);
    all += square_sum(row);
  }
  const double left = left_of_factors(known, difference);
  if (!(left > kVaries && residual <= kOfFactors * left * all)) return;
  Features moved = right;
  for (auto& row : moved) {
    for (size_t i = 0; i < row.size(); ++i) row[i] += mean[i];
  }
  fitted.push_back({"bias_missing", "is off by the same vector at every token",
                    static_cast<int64_t>(mean.size()), 0, std::move(moved)});
}

void add_token_shifts(const Evidence& evidence, const Features& right,
                      std::vector<Fitted>& fitted) {
  for (const int64_t by : {-3, -2, -1, 1, 2, 3}) {
    Features shifted(right.size());
    for (size_t t = 0; t < right.size(); ++t) {
      for (size_t from = 0; from < right.size(); ++from) {
        if (evidence.tokens()[t].token_idx - evidence.tokens()[from].token_idx == by &&
            right[from].size() == right[t].size()) {
          shifted[t] = right[from];
        }
      }
    }
    fitted.push_back({"token_shift",
                      fmt::format("is that of the token {} position{} {}", std::abs(by),
                                  std::abs(by) > 1 ? "s" : "", by > 0 ? "before" : "after"),
                      0, 0, std::move(shifted)});
  }
}

double head_distance(const Evidence& evidence, const Features& right, size_t to, size_t from,
                     size_t dim) {
  double distance = 0;
  for (size_t t = 0; t < right.size(); ++t) {
    for (size_t i = 0; i < dim && !right[t].empty(); ++i) {
      const double d = evidence.tokens()[t].got[to * dim + i] - right[t][from * dim + i];
      distance += d * d;
    }
  }
  return distance;
}

// Which head of `right` each head of got is most like, no two the same; empty if none has moved.
// At one token the heads of a group are equal: then any that is left will do.
std::vector<size_t> order_of(const Evidence& evidence, const Features& right, size_t dim) {
  constexpr double kSame = 1.01;
  const size_t heads = right[0].size() / dim;
  std::vector<size_t> order;
  std::set<size_t> left;
  for (size_t head = 0; head < heads; ++head) left.insert(head);
  for (size_t to = 0; to < heads; ++to) {
    double least = INFINITY;
    std::optional<size_t> best;
    // Where it stands comes first, so that what has not moved stays.
    for (size_t i = 0; i <= heads; ++i) {
      const size_t from = i == 0 ? to : i - 1;
      if (!left.contains(from)) continue;
      const double distance = head_distance(evidence, right, to, from, dim);
      if (best && !(distance * kSame < least)) continue;
      least = distance;
      best = from;
    }
    left.erase(*best);
    order.push_back(*best);
  }
  return std::is_sorted(order.begin(), order.end()) ? std::vector<size_t>() : order;
}

}  // namespace

bool is_nearly_one(double factor) {
  return std::abs(factor - 1) < 1e-4;
}

bool has_distinct_rows(const Features& rows, size_t count) {
  constexpr double kSame = 1e-6;  // of the squares; float leaves 1e-13
  std::vector<const std::vector<double>*> distinct;
  for (const auto& row : rows) {
    if (distinct.size() >= count) break;
    const bool told = std::any_of(distinct.begin(), distinct.end(), [&](const auto* other) {
      return other->size() == row.size() &&
             !(square_sum(row, *other) > kSame * std::max(square_sum(row), square_sum(*other)));
    });
    if (!row.empty() && !told) distinct.push_back(&row);
  }
  return distinct.size() >= count;
}

std::vector<Fitted> fit_linear(const Evidence& evidence, const Features& right) {
  std::vector<Fitted> fitted;
  add_factor(evidence, right, fitted);
  add_constant(evidence, right, fitted);
  add_token_shifts(evidence, right, fitted);
  return fitted;
}

std::vector<Fitted> fit_orders(const Evidence& evidence, const Features& right, int64_t head_dim) {
  std::vector<Fitted> fitted;
  if (!evidence.has_all_values() || right.empty() || right[0].empty()) return fitted;
  const bool one_size = std::all_of(right.begin(), right.end(), [&](const auto& row) {
    return row.empty() || row.size() == right[0].size();
  });
  if (!one_size) return fitted;
  std::vector<int64_t> dims = {head_dim};
  if (head_dim <= 0) dims = {256, 128, 96, 80, 64, 48, 32, 16};
  for (const int64_t dim : dims) {
    const auto width = static_cast<int64_t>(right[0].size());
    if (dim <= 0 || width % dim != 0 || width / dim < 2 || width / dim > 1024) continue;
    const std::vector<size_t> order = order_of(evidence, right, static_cast<size_t>(dim));
    if (order.empty()) continue;
    Features moved = right;
    for (size_t t = 0; t < right.size(); ++t) {
      for (size_t i = 0; i < right[t].size(); ++i) {
        const auto d = static_cast<size_t>(dim);
        moved[t][i] = right[t][order[i / d] * d + i % d];
      }
    }
    std::string list;
    for (size_t h = 0; h < order.size() && h < 16; ++h) {
      list += (h > 0 ? ", " : "") + std::to_string(order[h]);
    }
    fitted.push_back(
        {"head_order",
         fmt::format("has its heads in the order {}{}", list, order.size() > 16 ? ", ..." : ""), 0,
         0, std::move(moved)});
  }
  return fitted;
}

}  // namespace assay::causes
