#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/functions.h"

// The products of `fast` math in whole numbers: between cpu_kernels.cc, which is compiled once and
// shares work out to threads, and what is compiled once for each instruction set.
namespace assay::cpu {

// Of one instruction set; every set gives the same bits, and each element of a result is the same
// however rows and tokens are grouped into calls. For all types of weights but F32.
struct IntegerFunctions {
  // Bytes of the rounded activations of a product, which are those of any other with the same
  // rounding_of() its weights; of a multiple of 64.
  int64_t (*activation_bytes)(const MatmulCall& m);
  // They are made in this many pieces, in any order.
  int64_t (*activation_pieces)(const MatmulCall& m);
  // Pieces [first, last) of m.x, into `out`, which is aligned to 64 bytes.
  void (*round_activations)(const MatmulCall& m, int64_t first, int64_t last, uint8_t* out);

  // Rows [first, last) of the product, and of its bias, with the activations that
  // round_activations() made; `first` is a multiple of 16. scratch[scratch(m)] is aligned to 64
  // bytes.
  void (*matmul_rows)(const MatmulCall& m, const uint8_t* activations, int64_t first, int64_t last,
                      float* scratch);
  int64_t (*scratch)(const MatmulCall& m);
};

}  // namespace assay::cpu

namespace assay::portable {
const cpu::IntegerFunctions& integer_functions();
}
#if defined(__x86_64__)
namespace assay::avx2 {
const cpu::IntegerFunctions& integer_functions();
}
namespace assay::avxvnni {
const cpu::IntegerFunctions& integer_functions();
}
namespace assay::avx512vnni {
const cpu::IntegerFunctions& integer_functions();
}
namespace assay::amx {
const cpu::IntegerFunctions& integer_functions();
}
#endif
