#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/perf/accuracy.h"
#include "assay/perf/perf_comparison.h"

namespace assay {

// Speed and accuracy of one model side by side.
struct ModelVerdict {
  ModelKey key;
  // The benchmarks decode/MODEL/TYPE/MATH/N and prefill/…; of several N the one that changed for
  // the worse. Where not measured: nothing.
  std::optional<PerfResult> decode;
  std::optional<PerfResult> prefill;
  std::optional<Accuracy> base;  // where it was not held to a golden: nothing
  std::optional<Accuracy> head;
  bool refused = false;
  std::string reason;  // why, in a sentence; empty if it is not refused
};

// A model is refused where head is further from its golden than its floors allow, however fast it
// is, and where base was held to a golden, to one of a prompt or to records of it, and head was
// not, or to another floor or tolerance. Without accuracies, nothing is.
std::vector<ModelVerdict> judge_models(const PerfComparison& comparison,
                                       const std::map<ModelKey, Accuracy>& base,
                                       const std::map<ModelKey, Accuracy>& head);

// One verdict on a change.
struct SpeedAndAccuracy {
  PerfComparison speed;
  std::vector<ModelVerdict> models;

  int64_t refused() const;
  bool fails() const { return speed.verdict == PerfVerdict::kSlow || refused() > 0; }
  bool pass() const { return !fails() && speed.complete(); }
  // "REFUSED" where a model is, else that of the speed.
  std::string_view name() const;
};

}  // namespace assay
