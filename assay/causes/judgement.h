#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/causes/evidence.h"
#include "assay/causes/search_places.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

// A mistake and how well it fits.
struct Candidate {
  std::string name;   // as it stands in "causes" of the JSON
  std::string where;  // the checkpoints at which it is made
  std::string text;   // "rotates by position +1"
  int64_t parameters = 0;
  // 0: one of its op's own; 1: one that might befall any op, made at the checkpoint; 2: one made
  // before it; 3: one that is rather called by another name where nothing tells the two apart.
  int rank = 0;
  Fit fit;
  bool in_some_layers = false;  // of those that could have it
  double parameter = 0;         // that was chosen
  double score() const { return fit.ratio(); }
};

// What the candidates are held against.
struct JudgingContext {
  Op target;
  int64_t first_token = 0;
  Fit reference;          // of the reference itself as a prediction
  double base_ratio = 1;  // what the right computation leaves
  // Where only a tail of the tokens is to be explained, and the length of the prompt; 0: not known.
  std::optional<Tail> tail = std::nullopt;
  int64_t n_prompt = 0;
  double noise = 0;  // rel_l2 by which the logs differ before the checkpoint; 0 where they do not
};

struct Judgement {
  std::optional<Cause> cause;
  bool fits = false;  // whether a mistake fits, or several that are indistinguishable
  std::string hint;   // if several mistakes fit equally, lists them
};

// The share of the difference (of squares) that a perfect explanation still leaves, by the noise of
// the logs and of float.
double floor_ratio(const JudgingContext& context);

// Whether a cause of this name multiplies a tensor by a number.
bool is_factor(const std::string& name);

// The best candidate, if it is good enough. Where others leave as little, what is logged cannot
// tell which one it is: the sentence then has them too. Nothing is named where so few tokens are
// logged that mistakes of other kinds coincide.
Judgement judge(std::vector<Candidate> candidates, const JudgingContext& context);

}  // namespace assay::causes
