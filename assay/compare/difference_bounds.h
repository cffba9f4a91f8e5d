#pragma once

#include <span>

#include "assay/compare/metrics.h"
#include "assay/compare/record_view.h"

namespace assay {

// Two views of one tensor, and what a difference between them is taken against.
struct ViewPair {
  const RecordView& ref;
  const RecordView& got;
  size_t common = 0;           // leading values that both hold
  double head_difference = 0;  // ||ref - got|| over them
  double norm = 0;             // the reference's, or the best that is known of it
  double sums = 0;             // what its sums are of: the norm with all that `norm` is without
  bool padded = false;         // sums round off more than what is compared
};

// Raises metrics.rel_l2 to what is known of a difference beyond the values that both hold, by one
// rule for each pair of statements that bounds it, and notes in metrics.facts what both state. With
// d the difference of the two tensors, ||d|| is at least
// - what sketches estimate, within their error;
// - | ||a|| - ||b|| |, |max a - max b|, |min a - min b| and |mean a - mean b| * sqrt(n)
//   (Cauchy-Schwarz);
// - the differences of single elements that one lists and the other lists, or bounds;
// - by what any element, a mean times sqrt(n), or the norm of a head or of the largest elements
//   exceeds the norm of the other tensor, and by what a norm exceeds sqrt(n) times the largest
//   element of the other; of a norm that a sketch estimates what it is within its error;
// - by what sqrt(n) times a mean exceeds sqrt(n) times the extremes of the other.
void raise_to_bounds(const ViewPair& pair, Metrics& metrics);

// The pair with what its differences are taken against: the reference's norm; where it tells none,
// the other's; else what the values or extremes of the reference stand for. Of logits without what
// their padding has of it, and of any tensor without what a value has that no engine computes.
ViewPair pair_views(const RecordView& ref, const RecordView& got, size_t common,
                    double head_difference, double head_norm, const Metrics& metrics);

// An estimated norm is off by a factor beyond these once in 1e8 records: the mean of 64 squares of
// normal numbers.
inline constexpr double kMinNormRatio = 0.5;
inline constexpr double kMaxNormRatio = 1.55;

}  // namespace assay
