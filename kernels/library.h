#pragma once

#include <cstdint>

#include "kernels/tensor_type.h"

namespace assay {

// out[t, r] = sum_c w[r, c] * x[t, c], plus what out[t, r] holds if `adds`. All addresses are of
// the kernels' memory().
struct LibraryProduct {
  TensorType type = TensorType::kF16;  // of w and x: kF16, kBF16 or kF32
  const void* w = nullptr;             // [rows, columns]
  const void* x = nullptr;             // [n_tokens, columns]
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t n_tokens = 0;
  bool adds = false;
  float* out = nullptr;  // [n_tokens, rows]
};

// Products by cuBLAS: sums of 32 bits in an order that depends on the shapes, the device and the
// version. Those of kF32 neither round their inputs nor reorder products (pedantic math).
class Library {
 public:
  virtual ~Library() = default;

  // Must not be called within FusedKernels::record().
  virtual void multiply(const LibraryProduct& product) = 0;
};

}  // namespace assay
