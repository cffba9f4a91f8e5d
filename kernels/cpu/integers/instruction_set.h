// Defines integer_functions() for the instruction set that the including source is compiled for.
#pragma once

#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/matmul.h"

namespace assay::ASSAY_ISA {

const cpu::IntegerFunctions& integer_functions() {
  static constexpr cpu::IntegerFunctions kFunctions = {
      .activation_bytes = activation_bytes,
      .activation_pieces = activation_pieces,
      .round_activations = round_activations,
      .matmul_rows = matmul_rows,
      .scratch = matmul_scratch,
  };
  return kFunctions;
}

}  // namespace assay::ASSAY_ISA
