#include "assay/causes/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace assay::causes {
namespace {

// A value of a grid is a likelier mistake than one beside it that leaves no less than this of what
// it leaves.
constexpr double kFarBetter = 0.5;

const Tuned& likelier(const Tuned& of_grid, const Tuned& beside) {
  return beside.fit.ratio() < kFarBetter * of_grid.fit.ratio() ? beside : of_grid;
}

// Where the result is smooth in the parameter: what a small change of it does, times as much as
// brings it nearest to the judged log; again from there. It stays within the grid.
Tuned step(const Trial& trial, const std::vector<double>& grid, Tuned best) {
  constexpr int kSteps = 8;
  constexpr double kRelativeStep = 1e-2;
  for (int i = 0; i < kSteps; ++i) {
    const double parameter = best.parameter;
    const double aside = parameter == 0 ? kRelativeStep : parameter * (1 + kRelativeStep);
    const std::vector<Matrix> both = trial.predict(std::array{parameter, aside});
    const auto here = trial.evidence.features(both[0], trial.positions);
    const auto there = trial.evidence.features(both[1], trial.positions);
    double product = 0;
    double square = 0;
    for (size_t t = 0; t < here.size(); ++t) {
      const std::vector<double>& got = trial.evidence.tokens()[t].got;
      for (size_t k = 0; k < std::min(here[t].size(), there[t].size()); ++k) {
        const double slope = there[t][k] - here[t][k];
        product += slope * (got[k] - here[t][k]);
        square += slope * slope;
      }
    }
    if (!(square > 0)) break;
    const double next = parameter + product / square * (aside - parameter);
    if (!(next >= grid.front() && next <= grid.back())) break;
    const Fit fit = trial.fit(next);
    constexpr double kBetter = 0.9;
    if (!(fit.ratio() < kBetter * best.fit.ratio())) break;
    best = {next, fit};
  }
  return best;
}

// Golden-section search from `low` to `high`, in the logarithm where both are above 0.
Tuned narrow(const Trial& trial, double low, double high) {
  constexpr int kSteps = 40;
  const bool logarithmic = low > 0;
  const auto at = [&](double x) {
    const double value = logarithmic ? std::exp(x) : x;
    return Tuned{value, trial.fit(value)};
  };
  if (logarithmic) {
    low = std::log(low);
    high = std::log(high);
  }
  const double section = (std::sqrt(5.0) - 1) / 2;
  double a = high - section * (high - low);
  double b = low + section * (high - low);
  Tuned of_a = at(a);
  Tuned of_b = at(b);
  for (int step = 0; step < kSteps; ++step) {
    if (of_a.fit.ratio() < of_b.fit.ratio()) {
      high = b;
      b = a;
      of_b = of_a;
      a = high - section * (high - low);
      of_a = at(a);
    } else {
      low = a;
      a = b;
      of_a = of_b;
      b = low + section * (high - low);
      of_b = at(b);
    }
  }
  return of_a.fit.ratio() < of_b.fit.ratio() ? of_a : of_b;
}

// By how many values a long grid is searched first. Twenty-five values still meet the valley of a
// frequency base over a few dozen positions.
size_t stride_of(const std::vector<double>& grid) {
  constexpr size_t kSteps = 25;
  return grid.size() < 2 * kSteps ? 1 : grid.size() / kSteps;
}

// Of a factor as far from 1 as that, or from its inverse, another one may leave as little.
constexpr double kSmall = 0.05;

bool leaves_as_little(const Trial& trial, const Tuned& factor, double times, double noise) {
  constexpr double kAsGood = 4;
  const double ratio = trial.fit(times * factor.parameter).ratio();
  return ratio <= std::max(kAsGood * factor.fit.ratio(), noise);
}

}  // namespace

std::vector<Fit> Trial::fits(std::span<const double> parameters) const {
  std::vector<Fit> fits;
  for (const Matrix& predicted : predict(parameters)) {
    Fit& fit = fits.emplace_back();
    if (predicted.empty()) {
      fit.residual = std::numeric_limits<double>::infinity();
    } else {
      fit = evidence.fit(predicted, positions);
    }
  }
  return fits;
}

Trial::Predict one_by_one(std::function<Matrix(double parameter)> predict) {
  return [predict = std::move(predict)](std::span<const double> parameters) {
    std::vector<Matrix> predicted;
    for (const double parameter : parameters) predicted.push_back(predict(parameter));
    return predicted;
  };
}

Tuned best_of(const Trial& trial, std::span<const double> values) {
  const std::vector<Fit> fits = trial.fits(values);
  size_t best = 0;
  for (size_t i = 1; i < fits.size(); ++i) {
    if (fits[i].ratio() < fits[best].ratio()) best = i;
  }
  return {values[best], fits[best]};
}

std::optional<BoundMistake> left_of_grid(const Trial& trial, const BoundMistake& mistake,
                                         double most) {
  // What cannot be computed there says nothing.
  const auto is_refuted = [&](const Fit& fit) {
    return std::isfinite(fit.residual) && fit.residual > most;
  };
  const std::vector<double>& grid = mistake.grid;
  if (grid.empty()) return is_refuted(trial.fit(0)) ? std::nullopt : std::optional(mistake);
  BoundMistake left = mistake;
  left.grid.clear();
  if (!mistake.refine) {
    const std::vector<Fit> fits = trial.fits(grid);
    for (size_t i = 0; i < grid.size(); ++i) {
      if (!is_refuted(fits[i])) left.grid.push_back(grid[i]);
    }
    return left.grid.empty() ? std::nullopt : std::optional(std::move(left));
  }
  const size_t stride = stride_of(grid);
  std::vector<double> some;
  for (size_t i = 0; i < grid.size(); i += stride) some.push_back(grid[i]);
  const std::vector<Fit> fits = trial.fits(some);
  std::set<size_t> kept;
  const auto keep_about = [&](size_t at) {
    const size_t end = std::min(at + stride + 1, grid.size());
    for (size_t i = at - std::min(at, stride); i < end; ++i) kept.insert(i);
  };
  size_t best = 0;
  for (size_t i = 0; i < some.size(); ++i) {
    if (!is_refuted(fits[i])) keep_about(i * stride);
    if (fits[i].residual < fits[best].residual) best = i;
  }
  if (kept.empty()) {
    const Tuned found = refine(trial, mistake, {some[best], fits[best]});
    if (is_refuted(found.fit)) return std::nullopt;
    const auto above = std::ranges::lower_bound(grid, found.parameter) - grid.begin();
    keep_about(std::min(static_cast<size_t>(above), grid.size() - 1));
  }
  for (const size_t i : kept) left.grid.push_back(grid[i]);
  return left;
}

Tuned best_of_grid(const Trial& trial, const BoundMistake& mistake, bool in_steps) {
  const std::vector<double>& grid = mistake.grid;
  if (grid.empty()) return {0, trial.fit(0)};
  const size_t stride = stride_of(grid);
  if (!in_steps || !mistake.refine || stride == 1) return best_of(trial, grid);
  std::vector<double> some;
  for (size_t i = 0; i < grid.size(); i += stride) some.push_back(grid[i]);
  const Tuned about = best_of(trial, some);
  const auto at = static_cast<size_t>(std::ranges::find(grid, about.parameter) - grid.begin());
  std::vector<double> beside;
  for (size_t i = at - std::min(at, stride - 1); i < std::min(at + stride, grid.size()); ++i) {
    if (i != at) beside.push_back(grid[i]);
  }
  const Tuned nearer = best_of(trial, beside);
  return nearer.fit.ratio() < about.fit.ratio() ? nearer : about;
}

std::vector<double> like_in_grid(const Trial& trial, const BoundMistake& mistake,
                                 const Tuned& best) {
  constexpr double kNoise = 1e-7;
  if (mistake.grid.empty()) return {0};
  const std::vector<Fit> fits = trial.fits(mistake.grid);
  std::vector<double> alike;
  for (size_t i = 0; i < fits.size(); ++i) {
    if (fits[i].ratio() <= best.fit.ratio() + kNoise) alike.push_back(mistake.grid[i]);
  }
  return alike;
}

Tuned refine(const Trial& trial, const BoundMistake& mistake, const Tuned& best) {
  if (!mistake.refine) return best;
  const std::vector<double>& grid = mistake.grid;
  Tuned found = step(trial, grid, best);
  constexpr double kSolved = 1e-3;
  if (!(found.fit.ratio() <= kSolved) && best.fit.ratio() < kNear) {
    const auto at = std::ranges::find(grid, best.parameter);
    const double low = at == grid.begin() ? *at : *(at - 1);
    const double high = at + 1 == grid.end() ? *at : *(at + 1);
    const Tuned between = narrow(trial, low, high);
    if (between.fit.ratio() < found.fit.ratio()) found = between;
  }
  return likelier(best, found);
}

bool is_like_zero(const Trial& trial, const Tuned& factor, double noise) {
  constexpr double kFarSmaller = 0.01;
  return std::abs(factor.parameter) < kSmall && leaves_as_little(trial, factor, kFarSmaller, noise);
}

bool is_like_infinity(const Trial& trial, const Tuned& factor, double noise) {
  constexpr double kFarLarger = 100;
  return std::abs(factor.parameter) > 1 / kSmall &&
         leaves_as_little(trial, factor, kFarLarger, noise);
}

Tuned polish(const Trial& trial, const BoundMistake& mistake, const Tuned& near) {
  const Tuned start{near.parameter, trial.fit(near.parameter)};
  if (!mistake.refine) return start;
  return likelier(start, step(trial, mistake.grid, start));
}

}  // namespace assay::causes
