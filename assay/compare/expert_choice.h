#pragma once

#include <cstdint>
#include <string_view>

#include "assay/compare/metrics.h"
#include "assay/compare/policy.h"
#include "assay/log/record.h"

namespace assay {

// What a log states about a token's choice of experts in one layer.
struct ExpertChoice {
  const Record& experts;  // ids, as layer_N_experts has them
  const Record& router;   // logits, as layer_N_router has them
};

// What a flip of experts is, judged by the logits of both routers.
struct FlipJudgement {
  bool same_experts = false;  // in another order
  int64_t ref_expert = -1;    // of the experts swapped, the two that lie furthest apart
  int64_t got_expert = -1;
  double margin = 0;             // by how much the reference's logits prefer ref_expert
  double error = 0;              // how far apart two logits may be for a near tie
  bool level = false;            // a near tie
  std::string_view reason = {};  // why nothing proves one; empty where margin and error decide
};

// Judges two choices that differ, of as many experts. A near tie takes a proof: all ids are known,
// each choice follows from its own router's logits as far as these are logged, and the experts
// swapped are no further apart in the reference than both routers' logits are off at these two, or
// where the judged log does not have them, than tie_margin() allows; never further than the
// tolerance leaves to one of all elements. NaN proves nothing.
//
// `tolerance` and `router`: what the router's record was held to, and its metrics.
FlipJudgement judge_flip(const ExpertChoice& ref, const ExpertChoice& got,
                         const Tolerance& tolerance, const Metrics& router);

// Whether the ids are those of the router's greatest logits, as far as these are logged.
bool follows_router(const ExpertChoice& choice);

}  // namespace assay
