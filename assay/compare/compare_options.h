#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/name_map.h"
#include "assay/compare/policy.h"
#include "assay/compare/selection.h"

namespace assay {

enum class QuarantineMode : uint8_t {
  kExclude,  // garbage is listed and left out of the metrics; NaN and infinities still fail
  kFail,     // a record with garbage fails
  kOff,      // garbage is not looked for
};

struct CompareOptions {
  Policy policy;
  // Whether a part of a record is enough to show it. Partial and excused records count as unproven
  // where it is not, and so do logits whose argmax one of the logs does not tell.
  bool whole_required = false;
  std::vector<std::string> allow_missing;  // globs of checkpoints whose gaps are accepted
  AlignMode align = AlignMode::kAuto;
  int64_t offset = 0;  // for kFixed: token_idx in the second log minus that in the reference
  QuarantineMode quarantine = QuarantineMode::kExclude;
  bool strict_argmax = false;
  Selection selection;  // what is compared of what the reference has
  NameMap ref_map;      // names of the logs' tensors where they are not Assay's
  NameMap got_map;
  int n_threads = 0;  // 0: one per processor
  // Called from one thread with the bytes done of all that will be read.
  std::function<void(int64_t done, int64_t total)> progress;
};

}  // namespace assay
