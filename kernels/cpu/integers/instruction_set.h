// Defines int8_functions() for the instruction set that the including source is compiled for.
#pragma once

#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/matmul.h"

namespace assay::ASSAY_ISA {

const cpu::Int8Functions& int8_functions() {
  static constexpr cpu::Int8Functions kFunctions = {
      .activation_bytes = activation_bytes,
      .activation_pieces = activation_pieces,
      .quantize = quantize,
      .matmul_rows = int8_matmul_rows,
      .scratch = int8_scratch,
  };
  return kFunctions;
}

}  // namespace assay::ASSAY_ISA
