#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mutate/fault.h"
#include "assay/mutate/golden_case.h"
#include "engine/probe.h"

namespace assay {

// What one lane says about one fault in one model.
struct LaneResult {
  bool caught = false;
  // Of the first thing that is wrong, by token and then as the network computes: a checkpoint,
  // "prompt tokens" or "generated tokens".
  std::string place = {};
  int64_t token_idx = -1;  // -1 for tokens
  // The error there as a multiple of its tolerance; infinite for NaN, other tokens, no tokens.
  double ratio = 0;
  // The same where it is largest; for what is not caught this is the nearest that it came.
  double worst_ratio = 0;
};

// Holds the checkpoints that an engine computes to those of a golden, as they come.
class GoldenJudge : public Probe {
 public:
  // `golden` must outlive it. With `op_level` only the records of logs with every op count.
  GoldenJudge(const GoldenCase& golden, int64_t n_layers, bool op_level);

  bool wants(Checkpoint checkpoint, int layer) override;
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override;

  // Of all checkpoints seen so far.
  const LaneResult& result() const { return result_; }

 private:
  struct Key {
    int64_t token_idx;
    int order;  // as the network computes
  };

  std::vector<const GoldenRecord*>& records_of(Checkpoint checkpoint, int layer);

  std::vector<std::vector<const GoldenRecord*>> records_;  // by checkpoint within layer
  std::optional<Key> first_;
  LaneResult result_;
};

// What the goldens say of an engine with `fault`: first of the prompt's tokens, then, with the
// golden's own tokens put in, of every recorded checkpoint and of each greedy choice. `fault` may
// be null. `everything` is judged by all logs of the golden, `op_level` by those with every op.
// Throws Error that names the manifest where that has a padding id beyond the vocabulary.
//
// `snapshot`: whether a bit of a checkpoint is another than the golden's snapshot has; its place is
// the first such checkpoint as the network computes. It sees no tokens, and nothing where the
// golden has no snapshot.
struct GoldenLane {
  LaneResult everything;
  LaneResult op_level;
  LaneResult snapshot = {};
};
GoldenLane run_golden_lane(const GoldenCase& golden, const Fault* fault, Kernels& kernels);

}  // namespace assay
