#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/conform/engine_table.h"
#include "assay/conform/feature.h"

namespace assay {

// A cause that is no mistake.
inline constexpr char kRounding[] = "rounding";

// Mistakes that an engine may make together, and how far it is from that: rel_l2.
struct Explanation {
  std::vector<const Counterfactual*> mistakes;
  double left = std::numeric_limits<double>::infinity();
};

// Those of one mistake of the feature, that leave least first. `folder` has the feature's model and
// takes the models of its counterfactuals; `cell` has the log and the checkpoint that is judged.
std::vector<Explanation> explanations(const Feature& feature, const std::string& folder,
                                      const TableCell& cell);

// Those with as few mistakes as leave little, best first: each mistake more has to explain nearly
// all of what is left without it. What leaves `clean` needs no further ones.
std::vector<Explanation> best_explanations(const Feature& feature, double clean,
                                           const std::string& folder, const TableCell& cell);

// Mistakes of the feature, and beside them one of the catalogue that `assay compare` finds between
// what they lead to and the log.
struct MixedExplanation {
  Explanation feature;
  Cause cause;
  double left = std::numeric_limits<double>::infinity();  // rel_l2
};

// That which leaves least; nothing where none leaves `most` or less. Of the feature's mistakes
// those that come nearest to the log are tried, each alone, then all together, and one of each
// name.
std::optional<MixedExplanation> mixed_explanation(const Feature& feature, double most,
                                                  const std::string& folder, const TableCell& cell);

// The names of its mistakes; what the engine does, in words.
std::string causes_of(const Explanation& explanation);
std::string text_of(const Explanation& explanation);

}  // namespace assay
