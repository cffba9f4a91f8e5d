// Defines functions() for the instruction set that the including source is compiled for.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/delta.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/norms.h"
#include "kernels/cpu/rows.h"

namespace assay::ASSAY_ISA {

static void dequantize_row(TensorType type, const void* data, int64_t n, float* out) {
  row_functions(type).read(static_cast<const uint8_t*>(data), n, out);
}

const cpu::Functions& functions() {
  static constexpr cpu::Functions kFunctions = {
      .dequantize_row = dequantize_row,
      .matmul_rows = matmul_rows,
      .matmul_scratch = matmul_scratch,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .cut_off = cut_off,
      .attend = attend,
      .attention_scratch = attention_scratch,
      .max_query_tile = kTileQueries,
      .store_f16 = store_f16,
      .activate = activate,
      .add = add,
      .add_scaled = add_scaled,
      .mix = mix,
      .delta_head = delta_head,
      .ssm_head = ssm_head,
      .exp = exp,
  };
  return kFunctions;
}

}  // namespace assay::ASSAY_ISA
