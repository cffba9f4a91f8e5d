#pragma once

#include <map>
#include <string>

#include "assay/mutate/fault.h"
#include "assay/mutate/golden_case.h"
#include "assay/mutate/golden_lane.h"

namespace assay {

// What `assay compare` says, with the policy that is built in: a full log of the sound engine
// against one of the engine with the fault, over the tokens of a golden.
class CompareLane {
 public:
  explicit CompareLane(Kernels& kernels);
  ~CompareLane();
  CompareLane(const CompareLane&) = delete;
  CompareLane& operator=(const CompareLane&) = delete;

  // `fault` may be null.
  LaneResult run(const GoldenCase& golden, const Fault* fault);

 private:
  void write_log(const GoldenCase& golden, const Fault* fault, const std::string& path);

  Kernels& kernels_;
  std::string folder_;                            // of its own, and gone with it
  std::map<std::string, std::string> reference_;  // the sound engine's log of each case
};

}  // namespace assay
