#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace assay {

// Sums over the pairs (a[i], b[i]), in one fixed order.
struct ValueSums {
  int64_t count = 0;          // pairs
  double abs_difference = 0;  // sum |a - b|
  double difference_2 = 0;    // sum (a - b)^2
  double a_2 = 0;             // sum a^2
  double b_2 = 0;             // sum b^2
  double a_b = 0;             // sum a * b
  double max_difference = 0;  // max |a - b|
  int64_t max_ulp = 0;        // 32-bit floats between a and b, at most
  int64_t sign_flips = 0;     // pairs of opposite signs
  int64_t infinite = 0;       // pairs of equal infinities
  int64_t nonfinite = 0;      // pairs with a NaN or with unequal infinities; in no sum
};

// Sum, squares and extremes of finite values, in one fixed order; nothing where one is not finite
// or there is none.
struct ValueExtents {
  double sum = 0;
  double squares = 0;
  double least = 0;
  double largest = 0;
};
std::optional<ValueExtents> finite_extents(std::span<const float> values);

// x / y where 0 / 0 is no difference and x / 0 is an infinite one.
double relative(double x, double y);

// The norm of those values that are finite.
double norm_of_finite(std::span<const float> values);

// Spans of one length. Equal infinities of the same sign count as a pair without difference.
ValueSums sum_values(std::span<const float> a, std::span<const float> b);

// D(softmax(a) || softmax(b)) in nats. NaN if either holds a NaN or +Infinity; elements that are
// -Infinity on both sides are no part of either distribution.
double kl_divergence(std::span<const float> a, std::span<const float> b);

}  // namespace assay
