#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {

// The rotation of a call: its settings and where its rows stand.
struct Rotation {
  RopeSettings settings;
  std::vector<double> positions;
  double table_end = std::numeric_limits<double>::infinity();  // from there on it has zeros
};

// A call with other settings or positions.
KernelHooks rotated(std::function<void(Rotation&, const OpContext&)> edit);

// Within each head, from where it is rotated on, [pairs, 2] written as [2, pairs] or the other way
// round.
Matrix turned_heads(const Network& network, const Matrix& right, bool to_halves);

// A fault in how Q and K of one layer are turned; found at Q, which is turned first.
Injected of_both(std::string name, std::string what, double parameter = 0);
// A fault in the table of angles, which all layers share.
Injected of_table(std::string name, std::string what, UnsupportedReason reason,
                  std::function<double(const OpContext&)> parameter = {});

// What the frequencies of the base are divided by; empty where the base is unknown or alone.
std::vector<double> factors_of(const RopeSettings& settings);
bool has_factors(const Network& network, Op op);

// Whether cosines and sines are multiplied by a number.
bool has_table_factor(const Network& network, Op op);

// A number as people write it.
std::string rounded(double value);

// The same for a text that also has `other`: with more digits where both would read alike.
std::string rounded_unlike(double value, double other);

}  // namespace assay::mistakes
