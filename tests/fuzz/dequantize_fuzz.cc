// Any bytes are weights: each instruction set reads them to the bits of the naive reference.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cpu/functions.h"
#include "kernels/reference/dequantize.h"

namespace {

using Dequantize = void (*)(assay::TensorType, const void*, int64_t, float*);

std::vector<Dequantize> implementations() {
  std::vector<Dequantize> found = {assay::portable::functions().dequantize_row};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back(assay::avx2::functions().dequantize_row);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    found.push_back(assay::avx512::functions().dequantize_row);
  }
#endif
  return found;
}

// The bits, but that all NaNs are one: which NaN a sum of two gives is the processor's choice.
uint32_t bits(float x) {
  uint32_t word = 0x7FC00000;
  if (x == x) std::memcpy(&word, &x, sizeof word);
  return word;
}

}  // namespace

// The first byte says which type the rest is of.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Dequantize> all = implementations();
  if (size == 0) return 0;
  const assay::TensorType type =
      assay::kAllTensorTypes[data[0] % std::size(assay::kAllTensorTypes)];
  const assay::TensorTypeInfo& info = assay::tensor_type_info(type);
  const int64_t blocks = static_cast<int64_t>((size - 1) / info.block_bytes);
  const int64_t n = blocks * info.block_elements;
  // Of their own size to the byte, so that reading further is found.
  const std::vector<uint8_t> row(data + 1,
                                 data + 1 + static_cast<size_t>(blocks) * info.block_bytes);
  std::vector<float> expected(static_cast<size_t>(n));
  assay::dequantize_row(type, row.data(), n, expected.data());
  for (const Dequantize dequantize : all) {
    std::vector<float> got(static_cast<size_t>(n));
    dequantize(type, row.data(), n, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      if (bits(got[i]) != bits(expected[i])) std::abort();
    }
  }
  return 0;
}
