#pragma once

#include "assay/compare/comparison.h"

namespace assay {

// Sets status, pass, tolerance and the failing metric of one record from its metrics, but for
// kDrift, which it leaves to judge_comparison(): a record that fails is kWrong.
void judge_record(const Tolerance& tolerance, bool strict_argmax, RecordResult& result);

// A record proves nothing, for this reason, unless it fails.
void leave_unheld(std::string_view why, RecordResult& result);

// Tells gradual errors from sudden ones, in results sorted by token and as the network computes,
// and sets the verdict, pass, first_divergence and the counts of `comparison`.
//
// A failing record is kDrift if its error grew to where it is little by little: rel_l2 is at most
// half of the reference, and at most ten times that of the checkpoint before it at the same token
// (or of a quarter of the tolerance, where that is more), which did not fail as kWrong. Where no
// checkpoint comes before it, rel_l2 <= 0.1 is taken for drift, except at the embedding, which has
// nothing to drift from.
//
// The verdict of the whole is the worst of its records; all-zero ones count only if there are no
// others.
void judge_comparison(Comparison& comparison);

}  // namespace assay
