#pragma once

#include "kernels/cuda/packed.h"

// The products of a tile of rows that are stored in blocks, in `fast` math, with one tile of
// tokens, for which packing them (packed.h) would take longer: by the tensor cores, whose sums of
// whole numbers are the same in any order.
namespace assay::ASSAY_DEVICE {

// Which of the sixteen halves of a chunk goes into `lane` (int8.h).
__device__ inline int half_of_lane(int lane) {
  return lane / 8 * 8 + lane % 4 * 2 + lane % 8 / 4;
}

// What a warp computes: one of eight lanes, of one half of the tile's rows; of types with two
// scales for a block one of sixteen lanes, of all rows.
template <class Type>
class Int8Lane {
 public:
  __device__ Int8Lane(const Rows& rows, int64_t first_row, Stage& stage, const PackedTokens& x)
      : columns_(rows.columns),
        n_tokens_(static_cast<int>(x.n_tokens)),
        x_(x.blocks),
        weights_(rows, first_row, stage) {
    ASSAY_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) begins_[i] = weights_.begin_of(row(i));
  }

  // All threads of the block must call it.
  __device__ void multiply() {
    ASSAY_NO_UNROLL
    for (int first = 0; first < columns_; first += kChunk<Type>) {
      const int n = columns_ - first < kChunk<Type> ? columns_ - first : kChunk<Type>;
      const bool inside = half_ * kHalf < n;
      const int half = inside ? first / kHalf + half_ : 0;
      const Global<const uint8_t> block = x_.from(half / 2 * kPackedBlockBytes);
      uint4 codes[2];
      ASSAY_UNROLL
      for (int i = 0; i < 2; ++i) codes[i] = packed_word(block, i * kTileWarp + own_.lane);
      const TokenFloats scales = floats_of(block, kXScales);
      TokenFloats sums;  // if the type has shifts
      if constexpr (Type::kShift != Shift::kNone) {
        sums = floats_of(block, kTwoScales ? kXHalfSums + half % 2 : kXSums);
      }
      weights_.next(n);
      if (inside) add(first / kChunk<Type>, codes, scales, sums);
    }
  }

  __device__ void store(TileSums<float>& sums) const {
    if constexpr (kTwoScales) {
      sums = sums_;
    } else {
      store_half(own_.warp / kBlockLanes, sums_, sums);
    }
  }

 private:
  static constexpr bool kTwoScales = Type::kTwoScales;
  static constexpr int kRowsOfThread = kTwoScales ? kSide : kSide / 2;
  static constexpr int kHalves = kTwoScales ? 1 : 2;  // whose codes have one scale

  __device__ int row(int i) const {
    return own_.row(kTwoScales ? i : own_.warp / kBlockLanes * kRowsOfThread + i);
  }

  __device__ TokenFloats floats_of(const Global<const uint8_t>& block, int which) const {
    TokenFloats floats;
    ASSAY_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint4 four = packed_word(block, float_at(which, 0, 0) / 4 + own_.lane % 4 + 4 * i);
      floats.of[2 * i][0] = float_from_bits(four.x);
      floats.of[2 * i][1] = float_from_bits(four.y);
      floats.of[2 * i + 1][0] = float_from_bits(four.z);
      floats.of[2 * i + 1][1] = float_from_bits(four.w);
    }
    return floats;
  }

  __device__ void add(int chunk, const uint4 (&x_codes)[2], const TokenFloats& scales,
                      const TokenFloats& sums_of_x) {
    const int element = half_ * kHalf;
    uint32_t codes[kHalves][kRowsOfThread];
    Factor factors[kRowsOfThread];
    ASSAY_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      const uint8_t* block = weights_.block(row(i), begins_[i], chunk, element);
      ASSAY_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        codes[h][i] = signed_bytes<Type::kOffset>(
            Type::four_codes(block, element % Type::kElements + h * kHalf + own_.lane % 4 * 4));
      }
      factors[i] = weights_.factor(row(i), element);
      if constexpr (Type::kShift == Shift::kSubtracted) factors[i].shift = -factors[i].shift;
    }
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) {
      if (8 * j >= n_tokens_) break;
      ASSAY_UNROLL
      for (int i = 0; i < kRowsOfThread; i += 2) {
        int32_t dots[4] = {kZeroBits, kZeroBits, kZeroBits, kZeroBits};
        ASSAY_UNROLL
        for (int h = 0; h < kHalves; ++h) {
          const uint4& two_tokens = x_codes[j / 2];
          const bool is_first = kTwoScales ? half_ % 2 == 0 : h == 0;
          const uint32_t first = is_first ? two_tokens.x : two_tokens.y;
          const uint32_t second = is_first ? two_tokens.z : two_tokens.w;
          const uint32_t two[2] = {codes[h][i], codes[h][i + 1]};
          multiply_16x16x8(two, j % 2 == 0 ? first : second, dots);
        }
        ASSAY_UNROLL
        for (int d = 0; d < 4; ++d) {
          const Factor& factor = factors[i + d / 2];
          float& sum = sums_.of[i + d / 2][j][d % 2];
          sum = fmaf(__int_as_float(dots[d]) - kZero, factor.scale * scales.of[j][d % 2], sum);
          if constexpr (Type::kShift != Shift::kNone) {
            sum = fmaf(factor.shift, sums_of_x.of[j][d % 2], sum);
          }
        }
      }
    }
  }

  const ThreadInTile own_;
  // Of a chunk, the lane's first.
  const int half_ = kTwoScales ? half_of_lane(own_.warp) : own_.warp % kBlockLanes * 2;
  int columns_;
  int n_tokens_;
  Global<const uint8_t> x_;
  TileRows<Type> weights_;
  uint32_t begins_[kRowsOfThread];
  TileSums<float, kRowsOfThread> sums_ = {};
};

}  // namespace assay::ASSAY_DEVICE
