#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/coded_types.h"
#include "kernels/cpu/simd.h"

// The types of coded_types.h, read into lanes.
namespace assay::ASSAY_ISA {

// Types with a code for each four bits.
template <class Type>
concept HasTable = requires {
  Type::kTable;
};

// The codes of elements i to i + 31 of a block, as signed bytes; i is a multiple of 32.
template <class Type>
ASSAY_ALWAYS_INLINE U8x32 signed_codes(const uint8_t* block, int i) {
  if constexpr (HasTable<Type>) {
    return look_up(Type::kTable.low, Type::kTable.high, nibbles(Type::nibbles(block, i)));
  } else {
    uint8_t bytes[32];
#pragma GCC unroll 1
    for (int k = 0; k < 32; k += 4) {
      const uint32_t four = Type::four_codes(block, i + k);
      std::memcpy(bytes + k, &four, sizeof(four));
    }
    return load_bytes(bytes);
  }
}

template <class Type>
struct Coded {
  static constexpr int64_t kElements = Type::kElements;
  static constexpr int64_t kBytes = Type::kBytes;

  static void read_block(const uint8_t* block, float* out) {
#pragma GCC unroll 1
    for (int i = 0; i < Type::kElements; i += 32) {
      const U8x32 codes = signed_codes<Type>(block, i);
      const float first = Type::scale(block, i / Type::kGroup);
      const float second = Type::scale(block, (i + 16) / Type::kGroup);
      store(out + i, mul(splat(first), to_float(widen<0>(codes))));
      store(out + i + 16, mul(splat(second), to_float(widen<1>(codes))));
    }
  }
};

}  // namespace assay::ASSAY_ISA
