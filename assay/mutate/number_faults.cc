#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kNumbers;

// One element of the last token of each batch is `value`: the largest, so that its loss is one.
Fault with_element(const std::string& name, const std::string& what, Checkpoint at, float value) {
  return after_op({name, kGroup, what}, at, any_model, [value](const OpContext&, OpResult result) {
    const auto row = result.row(result.n_rows - 1);
    *std::max_element(row.begin(), row.end()) = value;
  });
}

}  // namespace

std::vector<Fault> number_faults() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<Fault> faults;
  faults.push_back(with_element("nan", "an element of the feed-forward's output is NaN",
                                Checkpoint::kFfnOut, std::numeric_limits<float>::quiet_NaN()));
  faults.push_back(with_element("infinity", "an element of the attention's output is infinite",
                                Checkpoint::kAttnOut, kInfinity));
  faults.push_back(
      with_element("minus-zero", "an element of V is lost: it is -0", Checkpoint::kV, -0.0F));
  faults.push_back(after_op(
      {"row-uninitialised", kGroup,
       "the row of the last token is not written: it holds what an allocator left"},
      Checkpoint::kFfnUp, any_model, [](const OpContext&, OpResult result) {
        const auto row = result.row(result.n_rows - 1);
        std::fill(row.begin(), row.end(), 0.0F);
        // Two pointers of a free list, as in the published logs.
        const uint64_t pointers[] = {0x00005599dd603c20U, 0x00005599dd603b80U};
        for (size_t i = 0; i < 4 && i < row.size(); ++i) {
          row[i] = std::bit_cast<float>(static_cast<uint32_t>(pointers[i / 2] >> (i % 2 * 32)));
        }
      }));
  faults.push_back(in_op<MatmulCall>(
      {"row-stale", kGroup, "the row of the last token is not written: it holds the layer before"},
      Checkpoint::kV,
      [](const Model& model) {
        return model.layers.size() > 1 ? "" : std::string("it has a single layer");
      },
      &KernelHooks::matmul,
      [](const OpContext&, const MatmulCall& call, Kernels& kernels) {
        const float* last = call.out + (call.n_tokens - 1) * call.w.rows;
        const std::vector<float> old(last, last + call.w.rows);
        kernels.run(call);
        std::copy(old.begin(), old.end(), call.out + (call.n_tokens - 1) * call.w.rows);
      }));
  faults.push_back(after_op(
      {"denormals-flushed", kGroup, "what is smaller than 1e-3 of the largest is flushed to 0"},
      Checkpoint::kFfnAct, any_model, [](const OpContext&, OpResult result) {
        for (int64_t t = 0; t < result.n_rows; ++t) {
          float largest = 0.0F;
          for (const float value : result.row(t)) {
            largest = std::max(largest, std::abs(value));
          }
          for (float& value : result.row(t)) {
            if (std::abs(value) < 1e-3F * largest) value = 0.0F;
          }
        }
      }));
  return faults;
}

}  // namespace assay::mutate
