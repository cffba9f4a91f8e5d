#pragma once

#include "kernels/cuda/int16.h"
#include "kernels/cuda/tiles.h"

// The products of a tile of F16 or BF16 rows in `fast` math: whole numbers of 14 bits (int16.h), of
// which the tensor cores multiply each byte with each.
namespace assay::ASSAY_DEVICE {

// What a warp computes: one of the eight lanes, of one half of the tile's rows. It reads the
// weights where they are, since no other warp needs them.
template <class Type>
class Int16Lane {
 public:
  __device__ Int16Lane(const Rows& rows, int64_t first_row, const Int16Tiles& x, int64_t tile,
                       int n_tokens)
      : x_(x),
        first_block_(tile * activation_blocks(rows.columns)),
        n_tokens_(n_tokens),
        columns_(rows.columns),
        rows_{row_of(rows, first_row, 0), row_of(rows, first_row, 1)} {}

  __device__ void multiply() {
    constexpr int kAhead = 2;
    constexpr int kRound = kAhead * kBlockLanes;
    const int aligned = aligned_blocks(columns_);
    uint4 ahead[kAhead][kRowsOfThread];
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (lane() + i * kBlockLanes < aligned) load(lane() + i * kBlockLanes, ahead[i]);
    }
    int block = lane();
    ASSAY_NO_UNROLL
    while (block < aligned) {
      ASSAY_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (block >= aligned) break;
        add_block(block, ahead[i]);
        if (block + kRound < aligned) load(block + kRound, ahead[i]);
        block += kBlockLanes;
      }
    }
    ASSAY_NO_UNROLL
    for (; block * kActivationBlock < columns_; block += kBlockLanes) {
      uint4 stored[kRowsOfThread];
      ASSAY_UNROLL
      for (int i = 0; i < kRowsOfThread; ++i) {
        stored[i] = load_eight(rows_[i], block * kActivationBlock + own_.lane % 4 * 8, columns_);
      }
      add_block(block, stored);
    }
  }

  __device__ void store(TileSums<float>& sums) const { store_half(half(), sums_, sums); }

 private:
  static constexpr int kRowsOfThread = 2;

  __device__ int lane() const { return own_.warp % kBlockLanes; }
  __device__ int half() const { return own_.warp / kBlockLanes; }

  // Those after the last are the last once more.
  __device__ Global<const uint8_t> row_of(const Rows& rows, int64_t first_row, int i) const {
    const int64_t row = first_row + own_.row(half() * kRowsOfThread + i);
    return rows.data.from((row < rows.n_rows ? row : rows.n_rows - 1) * rows.stride);
  }

  __device__ void load(int block, uint4 (&stored)[kRowsOfThread]) const {
    ASSAY_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      stored[i] = load_weights<uint4, 1>(rows_[i], int64_t{block} * 64 + own_.lane % 4 * 16);
    }
  }

  // As the matrix instruction has them: thread 4g + t has part t of a block of rows g and g + 8.
  __device__ void add_block(int block, const uint4 (&stored)[kRowsOfThread]) {
    uint4 of_tokens[kSide];
    TokenFloats scales;
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) {
      of_tokens[j] = x_.codes[((first_block_ + block) * kSide + j) * kTileWarp + own_.lane];
    }
    scales.load(x_.scales, (first_block_ + block) * 8, own_.lane);
    uint32_t high[2][kRowsOfThread];  // of elements 8t to 8t + 3, then of the next four
    uint32_t low[2][kRowsOfThread];
    float units[kRowsOfThread];
    ASSAY_UNROLL
    for (int i = 0; i < kRowsOfThread; ++i) {
      uint32_t largest = largest_of(stored[i], 0);
      largest = __vmaxu2(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, 1));
      largest = __vmaxu2(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, 2));
      const BlockUnit<Type> weight(largest);
      units[i] = weight.unit;
      uint32_t codes[4];
      codes_of<Type>(stored[i], weight.inverse, codes);
      ASSAY_UNROLL
      for (int k = 0; k < 2; ++k) {
        const FourCodes four = bytes_of(codes[2 * k], codes[2 * k + 1]);
        high[k][i] = four.high;
        low[k][i] = four.low;
      }
    }
    ASSAY_UNROLL
    for (int j = 0; j < kSide; ++j) {
      if (8 * j >= n_tokens_) break;
      const uint32_t x_high[2] = {of_tokens[j].x, of_tokens[j].y};
      const uint32_t x_low[2] = {of_tokens[j].z, of_tokens[j].w};
      int32_t of_high[4] = {};
      int32_t of_both[4] = {};
      int32_t of_low[4] = {};
      add_bytes(high, x_high, of_high);
      add_bytes(high, x_low, of_both);
      add_bytes(low, x_high, of_both);
      add_bytes(low, x_low, of_low);
      ASSAY_UNROLL
      for (int d = 0; d < 4; ++d) {
        const int dot = join(join(of_high[d], of_both[d]), of_low[d]);
        float& sum = sums_.of[d / 2][j][d % 2];
        sum = fmaf(static_cast<float>(dot), units[d / 2] * scales.of[j][d % 2], sum);
      }
    }
  }

  __device__ static void add_bytes(const uint32_t (&weights)[2][kRowsOfThread],
                                   const uint32_t (&x)[2], int32_t (&dots)[4]) {
    ASSAY_UNROLL
    for (int k = 0; k < 2; ++k) multiply_16x16x8(weights[k], x[k], dots);
  }

  const ThreadInTile own_;
  const Int16Tiles& x_;
  int64_t first_block_;
  int n_tokens_;
  int columns_;
  Global<const uint8_t> rows_[kRowsOfThread];
  TileSums<float, kRowsOfThread> sums_ = {};
};

}  // namespace assay::ASSAY_DEVICE
