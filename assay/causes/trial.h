#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "assay/causes/evidence.h"
#include "assay/causes/mistakes.h"

namespace assay::causes {

// What is left beside the right value of a grid is less than this, of the difference.
inline constexpr double kNear = 0.5;

// What a mistake predicts, held against what is logged.
struct Trial {
  // For each parameter, rows for `positions`; empty where the mistake cannot be made.
  using Predict = std::function<std::vector<Matrix>(std::span<const double> parameters)>;

  const Evidence& evidence;
  const std::vector<int64_t>& positions;
  Predict predict;

  std::vector<Fit> fits(std::span<const double> parameters) const;
  Fit fit(double parameter) const { return fits({&parameter, 1}).front(); }
};

// For predictions that gain nothing by being made together.
Trial::Predict one_by_one(std::function<Matrix(double parameter)> predict);

// A value of a mistake's parameter, and how well it fits.
struct Tuned {
  double parameter = 0;
  Fit fit;
};

// The value of the mistake's grid that leaves least; 0 where it has none. `in_steps`: a long grid
// of a parameter that acts smoothly is searched in steps, and then about the best of these.
Tuned best_of_grid(const Trial& trial, const BoundMistake& mistake, bool in_steps);

// The values of the mistake's grid that leave as much as `best`, but for float's noise: the few
// positions of a trial may not tell the length of a chunk or the end of a table. {0} without a
// grid.
std::vector<double> like_in_grid(const Trial& trial, const BoundMistake& mistake,
                                 const Tuned& best);

// The mistake with those values of its grid of which a trial at tokens that are right does not
// leave more than `most`, of squares; nothing where there are none. Of one that takes values
// between those of its grid, both beside such a one may be right.
std::optional<BoundMistake> left_of_grid(const Trial& trial, const BoundMistake& mistake,
                                         double most);

// The best of these values.
Tuned best_of(const Trial& trial, std::span<const double> values);

// Of a mistake that takes values between those of its grid the best one near `best`, a value of
// the grid; that one itself, a likelier mistake, where the other does not leave far less.
Tuned refine(const Trial& trial, const BoundMistake& mistake, const Tuned& best);

// The same from a value that has been refined in another trial: in a few steps.
Tuned polish(const Trial& trial, const BoundMistake& mistake, const Tuned& near);

// Whether a factor that is far smaller leaves as little, or no more than `noise` of the difference
// (of squares): then nothing shows what the factor is.
bool is_like_zero(const Trial& trial, const Tuned& factor, double noise);

// The same of one that is far larger, as where a softmax has nothing beside the largest.
bool is_like_infinity(const Trial& trial, const Tuned& factor, double noise);

}  // namespace assay::causes
