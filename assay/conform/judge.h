#pragma once

#include <string>

#include "assay/conform/engine_list.h"
#include "assay/conform/engine_table.h"
#include "assay/conform/feature.h"

namespace assay {

// How near to float64 the engine can come. Engines compute in the type of a model's weights if that
// is one of 16 bits, and round what they multiply with quantised weights.
const Precision& precision_of(const EngineDeclaration& engine, const Feature& feature);

// Judges the log of an engine. `folder` has the feature's model and takes the models of its
// counterfactuals; `cell.log` is the log.
//
// What is judged are the logits, or the output of the last layer where an engine logs no logits.
// Near float64 the feature is honoured. Otherwise the log is held to each counterfactual, which
// Assay's engine computes, to a few of them together, then to the catalogue of mistakes. An
// explanation must leave at most a tenth of the difference (a third where the engine rounds to 16
// bits), and no more than the precision may cost. Without one, the precision of the engine
// decides between honoured and differs. What is honoured is nearer to the feature than to any of
// its mistakes. Where the output is right and another checkpoint is not, the engine differs there.
void judge(const Feature& feature, const Precision& precision, const std::string& folder,
           TableCell& cell);

// Judges a cell that a file holds anew, by its figures: what is honoured or unsupported there is so
// only if they show it. Throws Error, without a place, where they cannot be of the case.
void judge_figures(const Feature& feature, const Precision& precision, TableCell& cell);

}  // namespace assay
