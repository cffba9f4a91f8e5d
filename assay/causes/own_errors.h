#pragma once

#include <cstdint>
#include <functional>

#include "assay/compare/compare_options.h"
#include "assay/compare/comparison.h"
#include "engine/model.h"

namespace assay {

struct OwnErrorRequest {
  double limit = 0;  // of the distance from what the model gives, relative to the norm of that
  // The two logs are the same: nothing but the model shows anything of a record.
  bool is_alone = false;
  std::function<void(int64_t done, int64_t total)> progress = {};
};

// Holds each record of the judged log, within `options.selection`, to what the model gives for the
// inputs that stand in the same log (see own_outputs()), and judges `comparison` anew: a record
// that is further off than the limit fails. Sets `comparison.own_errors`.
//
// Where the log is alone, a record that cannot be held is unproven, and so is one that the log
// lacks (see lacking_records()), unless options.allow_missing names the latter.
//
// Throws Error if nothing failed and not a single record can be held, or if the logs cannot be of
// the model.
void judge_own_errors(const Model& model, const CompareOptions& options,
                      const OwnErrorRequest& request, Comparison& comparison);

}  // namespace assay
