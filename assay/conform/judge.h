#pragma once

#include <string>

#include "assay/conform/engine_table.h"
#include "assay/conform/feature.h"

namespace assay {

// Judges the log of an engine. `folder` has the feature's model and takes the models of its
// counterfactuals; `cell.log` is the log.
//
// What is judged are the logits, or the output of the last layer where an engine logs no logits.
// Near float64 the feature is honoured. Otherwise the log is held to each counterfactual, which
// Assay's engine computes, to a few of them together, then to the catalogue of mistakes. An
// explanation must leave at most a tenth of the difference (a third where the engine rounds to 16
// bits), and no more than the precision may cost. Without one, the precision of the engine
// decides between honoured and differs. Where the output is right and another checkpoint is not,
// the engine differs there.
void judge(const Feature& feature, const Precision& precision, const std::string& folder,
           TableCell& cell);

}  // namespace assay
