#include "assay/mutate/fault_builders.h"

#include <cstring>

#include "kernels/reference/dequantize.h"

namespace assay::mutate {

Fault after_op(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason,
               std::function<void(const OpContext&, OpResult)> hook) {
  // With an empty hook around the call itself, which so stays as it is.
  Fault fault =
      in_op<AddCall>(std::move(text), at, std::move(unsupported_reason), &KernelHooks::add, {});
  fault.inject = [inject = fault.inject, hook = std::move(hook)](const FaultSite& site) {
    Injection injection = inject(site);
    injection.hooks.after = hook;
    return injection;
  };
  return fault;
}

Fault in_weights(FaultText text, Checkpoint at, UnsupportedReason unsupported_reason,
                 std::function<void(const FaultSite&, Layer&, Injection&)> edit) {
  Fault fault =
      in_op<AddCall>(std::move(text), at, std::move(unsupported_reason), &KernelHooks::add, {});
  fault.inject = [edit = std::move(edit), at](const FaultSite& site) {
    Injection injection;
    injection.found_at = {.checkpoint = at, .layer = site.layer};
    edit(site, site.model.layers[static_cast<size_t>(site.layer)], injection);
    return injection;
  };
  return fault;
}

std::vector<float> dequantized(const WeightMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    dequantize_row(matrix.type, matrix.slice(row, 1).data, matrix.columns,
                   values.data() + row * matrix.columns);
  }
  return values;
}

const void* keep(Injection& injection, std::vector<std::byte> bytes) {
  injection.kept.push_back(std::make_shared<std::vector<std::byte>>(std::move(bytes)));
  return injection.kept.back()->data();
}

WeightMatrix keep(Injection& injection, const std::vector<float>& values, int64_t rows,
                  int64_t columns) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {TensorType::kF32, rows, columns, keep(injection, std::move(bytes))};
}

}  // namespace assay::mutate
