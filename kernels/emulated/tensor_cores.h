#pragma once

#include <cstdint>

#include "kernels/emulated/language.h"

// The tensor cores' products of whole numbers, which kernels/cuda/language.h describes.
namespace assay::emulated {

inline void multiply_16x16x8(const uint32_t (&a)[2], uint32_t b, int32_t (&sums)[4],
                             Place place = Place::here()) {
  constexpr unsigned kParts = 4;  // lanes that bring in a row, or a column, together
  Block& block = Block::current();
  block.contribute(a[0] | uint64_t{a[1]} << 32U, b);
  block.meet(WarpOperation::kMultiply, 0xFFFFFFFFU, place);
  const unsigned row = block.lane() / kParts;
  const unsigned column = block.lane() % kParts * 2;
  for (unsigned part = 0; part < kParts; ++part) {
    const uint64_t rows = block.from(row * kParts + part, place)[0];
    for (unsigned j = 0; j < 2; ++j) {
      const auto own = static_cast<int>(block.from((column + j) * kParts + part, place)[1]);
      for (unsigned i = 0; i < 2; ++i) {
        int32_t& sum = sums[2 * i + j];
        sum = __dp4a(static_cast<int>(rows >> (32U * i)), own, sum);
      }
    }
  }
}

inline void multiply_16x16x8(const uint32_t (&a)[2], uint32_t b, int32_t start, int32_t (&sums)[4],
                             Place place = Place::here()) {
  for (int32_t& sum : sums) sum = start;
  multiply_16x16x8(a, b, sums, place);
}

inline void multiply_16x32x8(const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t start,
                             int32_t (&sums)[4], Place place = Place::here()) {
  multiply_16x16x8({a[0], a[1]}, b[0], start, sums, place);
  multiply_16x16x8({a[2], a[3]}, b[1], sums, place);
}

}  // namespace assay::emulated
