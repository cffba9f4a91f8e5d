#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "assay/mistakes/mistake.h"

// Numbers that are lost or never written; no comparison names a cause of them.
namespace assay::mistakes {
namespace {

Mistake after(std::function<void(const OpContext&, OpResult)> hook, Injected fault) {
  return {.edit = {.after = std::move(hook)}, .faults = {std::move(fault)}};
}

// One element of the last token of each batch is `value`: the largest, so that its loss is one.
Mistake with_element(const char* name, const char* what, Checkpoint at, float value) {
  return after(
      [value](const OpContext&, OpResult result) {
        const auto row = result.row(result.n_rows - 1);
        *std::max_element(row.begin(), row.end()) = value;
      },
      {name, FaultGroup::kNumbers, what, at});
}

void leave_two_pointers(const OpContext&, OpResult result) {
  const auto row = result.row(result.n_rows - 1);
  std::fill(row.begin(), row.end(), 0.0F);
  // Of a free list, as in the published logs.
  const uint64_t pointers[] = {0x00005599dd603c20U, 0x00005599dd603b80U};
  for (size_t i = 0; i < 4 && i < row.size(); ++i) {
    row[i] = std::bit_cast<float>(static_cast<uint32_t>(pointers[i / 2] >> (i % 2 * 32)));
  }
}

void run_without_last_row(const OpContext&, const MatmulCall& call, Kernels& kernels) {
  float* last = call.out + (call.n_tokens - 1) * call.w.rows;
  const std::vector<float> old(last, last + call.w.rows);
  kernels.run(call);
  std::copy(old.begin(), old.end(), last);
}

void flush_small(const OpContext&, OpResult result) {
  for (int64_t t = 0; t < result.n_rows; ++t) {
    float largest = 0.0F;
    for (const float value : result.row(t)) largest = std::max(largest, std::abs(value));
    for (float& value : result.row(t)) {
      if (std::abs(value) < 1e-3F * largest) value = 0.0F;
    }
  }
}

std::string needs_two_layers(const Model& model) {
  return model.layers.size() > 1 ? "" : "it has a single layer";
}

}  // namespace

std::vector<Mistake> number_mistakes() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {with_element("nan", "an element of the feed-forward's output is NaN", Checkpoint::kFfnOut,
                       kNan),
          with_element("infinity", "an element of the attention's output is infinite",
                       Checkpoint::kAttnOut, kInfinity),
          with_element("minus-zero", "an element of V is lost: it is -0", Checkpoint::kV, -0.0F),
          after(leave_two_pointers,
                {"row-uninitialised", FaultGroup::kNumbers,
                 "the row of the last token is not written: it holds what an allocator left",
                 Checkpoint::kFfnUp}),
          {.edit = {.matmul = run_without_last_row},
           .faults = {{"row-stale", FaultGroup::kNumbers,
                       "the row of the last token is not written: it holds the layer before",
                       Checkpoint::kV, needs_two_layers}}},
          after(flush_small,
                {"denormals-flushed", FaultGroup::kNumbers,
                 "what is smaller than 1e-3 of the largest is flushed to 0", Checkpoint::kFfnAct})};
}

}  // namespace assay::mistakes
