#pragma once

#include "assay/compare/comparison.h"

namespace assay {

// Sets all of one record that follows from its metrics: status, pass, the tolerance, its floor, the
// failing metric, and whether anything held. Leaves kDrift to judge_comparison(): a record that
// fails is kWrong.
void judge_record(const Tolerance& tolerance, bool strict_argmax, RecordResult& result);

// A record proves nothing, for this reason, unless it fails.
void leave_unheld(std::string_view why, RecordResult& result);

// Tells gradual errors from sudden ones, in results sorted by token and as the network computes,
// sets the verdict, pass, first_divergence, drift and the counts of `comparison`, and adds
// warnings.
//
// A failing record is kDrift if its error grew to where it is little by little: rel_l2 is at most
// half of the reference, and at most ten times that of the checkpoint before it at the same token
// (or of a quarter of the tolerance, where that is more), which did not fail as kWrong. Where no
// checkpoint comes before it, rel_l2 <= 0.1 is taken for drift, except at the embedding, which has
// nothing to drift from.
//
// The verdict of the whole is the worst of its records; all-zero ones count only if there are no
// others. Where none fails it is kInconclusive if a record of the logits, or all of a checkpoint,
// could not be held to anything.
void judge_comparison(Comparison& comparison);

}  // namespace assay
