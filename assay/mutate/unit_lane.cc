#include "assay/mutate/unit_lane.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "assay/mutate/mutant.h"
#include "engine/probe.h"

namespace assay {
namespace {

double row_error(std::span<const float> got, const float* want) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    difference += d * d;
    norm += static_cast<double>(want[i]) * want[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

// Calls come as the network computes: the first that is wrong is the first there is.
void judge(const OpContext& context, OpResult got, const float* want, LaneResult& result) {
  for (int64_t t = 0; t < got.n_rows; ++t) {
    const double error = row_error(got.row(t), want + t * got.width);
    const double ratio =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : error / kUnitTolerance;
    result.worst_ratio = std::max(result.worst_ratio, ratio);
    if (ratio <= 1.0 || result.caught) continue;
    result.caught = true;
    result.place = checkpoint_name(context.site.checkpoint, context.site.layer);
    result.token_idx = got.first_position + t;
    result.ratio = ratio;
  }
}

// Without a probe the last layer of a prompt computes the last position alone, where a wrong mask
// changes nothing. With this one it computes all.
class Onlooker : public Probe {
 public:
  bool wants(Checkpoint checkpoint, int /*layer*/) override {
    return checkpoint != Checkpoint::kLogits;
  }
  void observe(Checkpoint /*checkpoint*/, int /*layer*/, int64_t /*first_token_idx*/,
               int64_t /*n_tokens*/, int64_t /*width*/, const float* /*values*/) override {}
};

}  // namespace

LaneResult run_unit_lane(const GoldenCase& golden, const Fault* fault, Kernels& kernels) {
  if (fault != nullptr && fault->edit_vocabulary) return {};
  LaneResult result;
  const auto reference = make_reference_kernels();
  const auto n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Mutant mutant(
      golden.gguf, kernels,
      {.fault = fault,
       .n_positions = n_positions,
       .shadow = {.kernels = reference.get(),
                  .compare = [&result](const OpContext& context, OpResult got, const float* want) {
                    judge(context, got, want, result);
                  }}});
  Onlooker onlooker;
  mutant.eval(golden.tokens, &onlooker);
  // Two steps of decode: more would show the same.
  for (size_t i = 0; i < std::min<size_t>(2, golden.greedy.size()); ++i) {
    mutant.eval({&golden.greedy[i], 1}, &onlooker);
  }
  return result;
}

}  // namespace assay
