#pragma once

#include <string_view>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"

namespace assay {

// Whether the two records agree each with itself.
struct SelfConsistency {
  bool ref = true;
  std::string_view got_contradiction;  // what of the judged record contradicts itself; or nothing
};

// Sets all of one record that follows from its metrics: evidence, status, the tolerance, its floor
// and the failing metric. Leaves kDrift to judge_comparison(): a record that fails is kWrong.
void judge_record(const Tolerance& tolerance, const CompareOptions& options,
                  const SelfConsistency& soundness, RecordResult& result);

// The largest error that the tolerance leaves to one of all elements; where it has no say, four
// times the root mean square of the errors. 0 where that is not known.
double most_of_one(const Tolerance& tolerance, const Metrics& metrics);

// How far apart two candidates may be in the reference for a flip between them to be noise: as far
// as values are off, but no further than most_of_one(). An error of a few is not that of the
// candidates; and where only a few elements are logged, theirs is not the largest.
double tie_margin(const Tolerance& tolerance, const Metrics& metrics);

// A record fails by this metric, unless it failed by another before.
void fail_record(Metric metric, double value, double tolerance, RecordResult& result);

// A record that fails whatever its values are: every distance is NaN.
RecordResult failed_result(Metric metric, double value, double tolerance);

// Tells gradual errors from sudden ones, in results sorted by token and as the network computes,
// and sets the verdict, pass, evidence, first_divergence, drift and the counts of `comparison`. May
// be called again after results have changed.
//
// A failing record is kDrift if its error grew to where it is little by little: rel_l2 is at most
// half of the reference, and at most ten times that of the checkpoint before it at the same token
// (or of a quarter of the tolerance, where that is more), which did not fail as kWrong. Where no
// checkpoint comes before it, rel_l2 <= 0.1 is taken for drift, except at the embedding, which has
// nothing to drift from.
//
// One record failed: the worst of their verdicts. None failed and one is unproven: kIncomplete, or
// kInconclusive where nothing but zeros was compared. Otherwise the worst of all records, where
// zeros count only if there is nothing else.
void judge_comparison(Comparison& comparison);

}  // namespace assay
