#pragma once

#include <span>

namespace assay {

// What pairs of measurements say of the ratio between the two things measured. Of log(b / a), so
// that half as fast and twice as fast are equally far from 0.
struct PairedTest {
  double estimate = 0;  // Hodges-Lehmann: the median of the means of all pairs of differences
  double low = 0;       // of the confidence interval of the estimate; -infinity where too few pairs
  double high = 0;      // are there for one
  double p = 1;         // two-sided, of the hypothesis that the differences lie evenly around 0
};

// Wilcoxon's signed-rank test (1945) with the confidence interval that it gives by inversion
// (Hollander & Wolfe 1973). `differences`: at least one; none of them NaN. Exact up to 50 of them
// (zeros are left out, ties get their mean rank), by the normal approximation beyond. `alpha`: one
// minus the confidence of the interval.
//
// A rank test, because times have long tails: one repetition that was interrupted shifts a mean,
// and hardly a rank.
PairedTest paired_test(std::span<const double> differences, double alpha);

}  // namespace assay
