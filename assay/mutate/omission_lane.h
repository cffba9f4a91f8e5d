#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/mutate/golden_case.h"
#include "kernels/kernels.h"

namespace assay {

// Logs of a sound engine that leave something out: right in all that they say, and yet no
// comparison may pass them.

// One way to leave something out, over all that it was tried on.
struct OmissionPower {
  std::string name;  // "logits"
  std::string what;  // "no record of the logits"
  int64_t tried = 0;
  int64_t caught = 0;
  std::vector<std::string> passed;  // what it got through: "tinyllama F32 haiku, all values"
};

// Compares the log of the sound engine with what is left of it after each omission, for logs of all
// values and for logs of ten values, a summary and a sketch, with the policy that is built in and
// with that of the golden's manifest, which asks for whole evidence. What states less without
// leaving out a record (a head alone, no summary) is tried with the latter only.
//
// Throws Error if the whole log does not pass against itself: then nothing is shown.
std::vector<OmissionPower> run_omission_lane(const std::vector<const GoldenCase*>& cases,
                                             Kernels& kernels);

}  // namespace assay
