#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mutate/fault.h"

// What the tables of faults are written with.
namespace assay::mutate {

using namespace mistakes;

struct FaultText {
  std::string name;
  FaultGroup group;
  std::string what;
  std::string cause = {};
};

// A fault in the calls of one kernel that make the checkpoint `at` of a layer.
template <class Call>
Fault in_op(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason,
            Hook<Call> KernelHooks::*member, Hook<Call> hook) {
  Fault fault{.name = std::move(text.name),
              .group = text.group,
              .what = std::move(text.what),
              .cause = std::move(text.cause),
              .in_one_layer = at != Checkpoint::kEmbedding && at < Checkpoint::kFinalNorm,
              .unsupported_reason = std::move(unsupported_reason)};
  fault.inject = [at, member, hook = std::move(hook),
                  in_one_layer = fault.in_one_layer](const FaultSite& site) {
    const int layer = in_one_layer ? site.layer : 0;
    Injection injection;
    injection.found_at = {.checkpoint = at, .layer = layer};
    injection.hooks.*member = hook;
    injection.applies = [at, layer](const OpSite& call) {
      return call.checkpoint == at && call.layer == layer;
    };
    return injection;
  };
  return fault;
}

// A fault that changes the finished checkpoint `at` of a layer.
Fault after_op(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason,
               std::function<void(const OpContext&, OpResult)> hook);

// A fault in a layer's weights; `at` is where it must be found.
Fault in_weights(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason,
                 std::function<void(const FaultSite&, Layer&, Injection&)> edit);

// The matrix as dense floats, row by row.
std::vector<float> dequantized(const WeightMatrix& matrix);

// `values` as an F32 matrix that lives as long as `injection`.
WeightMatrix keep(Injection& injection, const std::vector<float>& values, int64_t rows,
                  int64_t columns);
// The same for the bytes of any type.
const void* keep(Injection& injection, std::vector<std::byte> bytes);

}  // namespace assay::mutate
